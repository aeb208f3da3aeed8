import fs from "node:fs/promises";
import { AgentError } from "@kip/agent-api";
import { defined, errorText, ownValue } from "@kip/base";
import { RuntimeError } from "@kip/oci-runtime";
import { withinMachine } from "../admission/pod-memory.ts";
import { startErrorReport } from "../container/exit-report.ts";
import {
  createContainer,
  describeRun,
  discardRun,
  pidNamespaceOf,
  type RunInput,
} from "../container/start-container.ts";
import { allocateDevices, givenDevices } from "../devices/allocate-devices.ts";
import type { CdiDevices } from "../devices/cdi-devices.ts";
import { podLimits } from "../state/amounts.ts";
import { nextAttempt, type ContainerRecord, type ContainerRun } from "../state/container-record.ts";
import { targetId } from "../state/find-container.ts";
import type { PodChange } from "../state/pod-change.ts";
import type { EndReason } from "../state/pod-state.ts";
import { shownId } from "../state/run-id.ts";
import { postStart } from "./post-start.ts";
import { rejectPod } from "./reject-pod.ts";
import {
  discard,
  present,
  recordOf,
  type Executor,
  type PodStepContext,
  type StepTools,
} from "./step-tools.ts";

/** Creates and starts the container. Ends after its postStart hook. The plan retries failures. */
export const start: Executor<"start"> = async ({ container }, context, tools) => {
  const record = recordOf(context.state(), container);
  const input = inputOf(record, context, tools);
  if (!input) return undefined;
  const found = await findDevices(input, context, tools);
  if (found.rejection) return rejectPod(found.rejection, tools);
  const run = describeRun(input, preparedId(record, tools));
  context.change({ kind: "runBegun", container, run });
  let isWatched = false;
  try {
    // Saved before anything of it exists, so that nothing can be lost.
    await tools.save();
    void removeOldestLog(record, tools);
    // Only if needed, because it starts a program, which a first start can avoid.
    if (record.saved.run?.id === run.id) await discardRun(run, tools);
    const devices = givenDevices(ownValue(context.state().devices ?? {}, container), found.all);
    await makeAndStart(run, { ...input, devices }, context, tools);
    // The container does not count as started or ready before this.
    isWatched = await postStart(run, context, tools, container);
  } catch (error) {
    context.change(failure(run, input, tools, error));
    await tools.trySave();
    await discard(run.id, tools);
  }
  return { kind: "startOver", container, isWatched };
};

/**
 * The cell's devices, if this container requests some. They are read now, because an earlier container may have provided them.
 * When the first container that requests devices starts, those of all containers are assigned permanently. A restarted
 * container keeps its devices.
 */
async function findDevices(
  { pod, container }: RunInput,
  { state, change }: PodStepContext<"start">,
  { dependencies }: StepTools,
): Promise<{ readonly all: CdiDevices; readonly rejection?: EndReason | undefined }> {
  if (container.extendedResources === undefined) return { all: new Map() };
  const all = await dependencies.cdiDevices();
  if (state().devices) return { all };
  const { rejection, devices } = allocateDevices(pod, all);
  if (devices) change({ kind: "devicesGiven", devices });
  return { all, rejection };
}

/** Inputs for the run. Undefined if the image for which it was planned is no longer wanted. */
function inputOf(
  record: ContainerRecord,
  { state }: PodStepContext<"start">,
  { dependencies, directories }: StepTools,
): RunInput | undefined {
  if (record.image.kind !== "ready") return undefined;
  return {
    pod: present(state().desired),
    container: {
      ...record.desired,
      ...ownValue(state().allocation.containers, record.desired.name),
    },
    amounts: state().allocation.containers,
    image: record.image.image,
    volumeImages: record.image.volumes,
    attempt: nextAttempt(record),
    resources: present(state().resources),
    directories,
    dependencies,
  };
}

/**
 * The ID of the container that the runtime has prepared, for the first run of a plain container. A run that is created again
 * keeps its ID.
 */
function preparedId({ desired, saved }: ContainerRecord, tools: StepTools): string | undefined {
  if (desired.tty === true || desired.stdin === true || saved.run) return undefined;
  return tools.dependencies.runtime.takePreparedId();
}

async function makeAndStart(
  run: ContainerRun,
  input: RunInput,
  { state, change }: PodStepContext<"start">,
  { dependencies, events, clock, logger }: StepTools,
): Promise<void> {
  const { name: container, targetContainer } = input.container;
  const { runtime } = dependencies;
  const pidNamespace =
    targetContainer === undefined
      ? undefined
      : await pidNamespaceOf(targetId(state(), targetContainer), runtime);
  limitPod(input, { state, change }, { dependencies, clock });
  const made = await createContainer(run, { ...input, pidNamespace });
  events.normal("Created", `Created container: ${container}`, container);
  change({ kind: "created", container, run: made });
  await runtime.start(run.id);
  const before = state().timings.values["start"];
  const monotonicMs = clock.monotonic();
  change({ kind: "started", container, run: made, startedAtMs: clock.now(), monotonicMs });
  events.normal("Started", `Started container ${container}`, container);
  // The local cloud reads this line from the console, see admission/start-phase.ts.
  if (before !== state().timings.values["start"])
    logger.info("Pod has started", { podUid: input.pod.uid });
}

/** Called before the first process of the pod starts, and again for each start. It does not change existing limits. */
function limitPod(
  { pod, amounts, resources: { sandbox } }: RunInput,
  { state, change }: Pick<PodStepContext<"start">, "state" | "change">,
  { dependencies, clock }: Pick<StepTools, "dependencies" | "clock">,
): void {
  const known = state().allocation.podLimits;
  const limits = known ?? podLimits(pod, amounts);
  const hugePages = defined({ hugePages: pod.hugePages });
  dependencies.runtime.limitPod(sandbox, { ...withinMachine(limits, pod), ...hugePages });
  if (!known) change({ kind: "podLimited", limits, nowMs: clock.now() });
}

/** If the command cannot be run, that is the container's own fault, and counts as its end. */
function failure(
  run: ContainerRun,
  { pod, container: { name: container } }: RunInput,
  { events, clock, logger }: StepTools,
  error: unknown,
): PodChange {
  const message = errorText(error);
  const nowMs = clock.now();
  logger.warn("Could not start a container", { container, err: error });
  events.warning("Failed", `Error: ${message}`, container);
  if (RuntimeError.is(error, "CONTAINER_CREATE_FAILED", "CONTAINER_START_FAILED")) {
    const containerId = shownId(pod.uid, container, run.attempt);
    const exit = startErrorReport({ message, nowMs, containerId });
    logger.info("Container ended", { container, exitCode: exit.exitCode });
    const waiting = { reason: "RunContainerError", message };
    const { id: runId } = run;
    return {
      kind: "ended",
      container,
      runId,
      exit,
      endedAtMs: nowMs,
      nowMs,
      waiting,
      needsDiscard: false,
    };
  }
  // What a node's container runtime finds out is not in the kubelet's configuration: no command, no such user, no such device.
  const isConfig = AgentError.is(error, "AGENT_CONTAINER_CONFIG", "AGENT_PATH_UNSAFE");
  const reason = isConfig ? "CreateContainerConfigError" : "CreateContainerError";
  return { kind: "createFailed", container, reason, message, nowMs };
}

/** The logs of two runs are kept: the present one and the one before. */
async function removeOldestLog({ saved }: ContainerRecord, { logger }: StepTools): Promise<void> {
  const { run, previousLogDirectory: log } = saved;
  if (!run?.exit || log === undefined) return;
  try {
    await fs.rm(log, { recursive: true, force: true });
  } catch (error) {
    logger.warn("Could not remove a log", { log, err: error });
  }
}
