import type { ResourceAmounts } from "@kip/agent-api";
import { errorText, ownValue } from "@kip/base";
import { withinMachine } from "../admission/pod-memory.ts";
import { actuated, resizeOf } from "../state/allocation.ts";
import { containerLimits, podLimits } from "../state/amounts.ts";
import type { PodState } from "../state/pod-state.ts";
import { present, type Executor, type StepTools } from "./step-tools.ts";

/** The resize of one container. */
interface Resize {
  readonly container: string;
  readonly runId: string;
  readonly from: ResourceAmounts;
  readonly to: ResourceAmounts;
}

/**
 * Resizes the running containers and their pod, which grows before them and shrinks after them. A memory limit is not set below
 * the usage, because the kernel would kill processes. As in a kubelet, failures are retried later.
 */
export const resize: Executor<"resize"> = async (_step, context, tools) => {
  const { dependencies, clock, logger } = tools;
  const state = context.state();
  const pod = present(state.desired);
  const { sandbox } = present(state.resources);
  const resizes = resizesOf(state);
  const before = state.allocation.podLimits;
  const after = podLimits(pod, state.allocation.containers);
  try {
    await checkMemory(resizes, { before, after, sandbox, dependencies });
    if (before) limitPod(larger(before, after));
    for (const { container, runId, to } of shrinkingFirst(resizes)) {
      await dependencies.runtime.resize(runId, containerLimits(pod, to));
      context.change({ kind: "resized", container, runId, resources: to, nowMs: clock.now() });
    }
    limitPod(after);
    return undefined;
  } catch (error) {
    logger.warn("Could not resize the pod", { err: error });
    return { kind: "resizeFailed", message: errorText(error), nowMs: clock.now() };
  }

  function limitPod(limits: ResourceAmounts): void {
    dependencies.runtime.limitPod(sandbox, withinMachine(limits, pod));
    context.change({ kind: "podLimited", limits, nowMs: clock.now() });
  }
};

function resizesOf({ allocation, containers }: PodState): readonly Resize[] {
  return [...containers.values()].flatMap((record) => {
    const { name } = record.desired;
    const { run } = record.saved;
    if (!run || resizeOf(record, allocation) !== "inPlace") return [];
    const to = ownValue(allocation.containers, name) ?? {};
    return [{ container: name, runId: run.id, from: actuated(record, allocation), to }];
  });
}

/** Sorts the resizes so that what is taken from one container may be given to the next. */
function shrinkingFirst(resizes: readonly Resize[]): readonly Resize[] {
  const isShrinking = ({ from, to }: Resize): boolean =>
    isLower(to.memoryBytesLimit, from.memoryBytesLimit) ||
    isLower(to.cpuMilliLimit, from.cpuMilliLimit);
  return [...resizes.filter(isShrinking), ...resizes.filter((one) => !isShrinking(one))];
}

/** Whether a limit is lower than another. Undefined means unlimited. */
function isLower(limit: number | undefined, other: number | undefined): boolean {
  return (limit || Infinity) < (other || Infinity);
}

/** The larger value of each limit and request. */
function larger(a: ResourceAmounts, b: ResourceAmounts): ResourceAmounts {
  const limit = (name: "cpuMilliLimit" | "memoryBytesLimit"): number | undefined =>
    isLower(a[name], b[name]) ? b[name] : a[name];
  return {
    cpuMilliLimit: limit("cpuMilliLimit"),
    memoryBytesLimit: limit("memoryBytesLimit"),
    cpuMilliRequest: Math.max(a.cpuMilliRequest ?? 0, b.cpuMilliRequest ?? 0),
  };
}

interface MemoryCheck extends Pick<StepTools, "dependencies"> {
  readonly before: ResourceAmounts | undefined;
  readonly after: ResourceAmounts;
  readonly sandbox: NonNullable<PodState["resources"]>["sandbox"];
}

/** @throws Error in the kubelet's words, if a limit would be below the current usage */
async function checkMemory(
  resizes: readonly Resize[],
  { before, after, sandbox, dependencies: { runtime } }: MemoryCheck,
): Promise<void> {
  const problems: string[] = [];
  const podUsage = runtime.podMemoryUsage(sandbox) ?? 0;
  const podLimit = after.memoryBytesLimit;
  if (podLimit !== undefined && isLower(podLimit, before?.memoryBytesLimit) && podUsage >= podLimit)
    problems.push(
      `attempting to set pod memory limit (${podLimit}) below current usage (${podUsage})`,
    );
  for (const { container, runId, from, to } of resizes) {
    const limit = to.memoryBytesLimit;
    if (limit === undefined || !isLower(limit, from.memoryBytesLimit)) continue;
    // A container that has ended uses nothing.
    const usage = await runtime.stats(runId).then(
      ({ memoryUsageBytes }) => memoryUsageBytes,
      () => 0,
    );
    if (usage < limit) continue;
    problems.push(
      `attempting to set container "${container}" memory limit (${limit}) below current usage (${usage})`,
    );
  }
  if (problems.length === 0) return;
  const all = problems.length === 1 ? problems[0] : `[${problems.join(", ")}]`;
  throw new Error(`cannot decrease memory limits: ${all}`);
}
