import { errorText, untilAborted, type Clock, type Logger } from "@kip/base";
import {
  ignoreNotFound,
  isNotFound,
  paths,
  wireTime,
  type ApiClient,
  type RecordedEvent,
} from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { Executors, StepContext, StepOf } from "@kip/reconcile";
import type { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider, ResolvedPod } from "../pod-provider.ts";
import { findError, type FoundError } from "../errors.ts";
import { deadlineExceeded } from "../status/deadline-exceeded.ts";
import { qosClass } from "../status/qos-class.ts";
import { startPodSpan, type Tracer } from "../tracing.ts";
import { goneStatus, neverRunStatus } from "./fallback-statuses.ts";
import { gracePeriodSeconds, hasBegun, isFinished } from "./pod-facts.ts";
import { isPlanned, type PodStepArgs } from "./pod-plan.ts";
import type { PodChange, PodState } from "./pod-state.ts";
import type { ProviderProblems } from "./provider-problems.ts";
import type { StatusWriter } from "./status-writer.ts";

/** Dependencies of a pod's steps. */
export interface PodExecutorOptions {
  readonly client: ApiClient;
  /** The client for changing the pod. */
  readonly nodeClient: ApiClient;
  readonly provider: PodProvider;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Resolves the pod's references. `previous` is the content that the provider last accepted. */
  readonly resolve: (pod: Pod, previous: ResolvedPod | undefined) => Promise<ResolvedPod>;
  readonly recordEvent: (pod: Pod, event: RecordedEvent) => void;
  readonly metrics: NodeMetrics;
  readonly tracer: Tracer;
  readonly status: StatusWriter;
  readonly problems: ProviderProblems;
  /** Aborts when the pod's worker ends. */
  readonly signal: AbortSignal;
}

type Context<K extends keyof PodStepArgs> = StepContext<
  PodState,
  PodChange,
  StepOf<PodStepArgs, K>
>;

/** The functions that run each kind of step, with traces and metrics. */
export function podExecutors(
  options: PodExecutorOptions,
): Executors<PodStepArgs, PodState, PodChange> {
  return {
    apply: async (step, context) => {
      try {
        return await measured(options, step.kind, context, () => apply(options, context));
      } catch (error) {
        const invalid = findError(error, "VK_INVALID_POD");
        const state = context.state();
        if (!invalid || !isPlanned(state, step.kind)) throw error;
        return reject(options, state.api.pod, invalid);
      }
    },
    finish: (step, context) =>
      measured(options, step.kind, context, () => finish(options, context)),
    remove: (step, context) =>
      measured(options, step.kind, context, () => remove(options, step, context)),
    finalize: (step, context) =>
      measured(options, step.kind, context, () => finalize(options, context)),
    forget: (step, context) =>
      measured(options, step.kind, context, () => forget(options, context)),
  };
}

async function measured<T>(
  { clock, metrics, tracer }: PodExecutorOptions,
  kind: keyof PodStepArgs,
  { state }: Pick<Context<"apply">, "state">,
  execute: () => Promise<T>,
): Promise<T> {
  const startedAt = clock.monotonic();
  const span = startPodSpan(tracer, `pod.${kind}`, state().api.pod.metadata);
  try {
    const result = await execute();
    span.end();
    metrics.step(kind, "ok", clock.monotonic() - startedAt);
    return result;
  } catch (error) {
    span.end(error);
    metrics.step(kind, "failed", clock.monotonic() - startedAt);
    throw error;
  }
}

async function apply(
  options: PodExecutorOptions,
  { state, change, signal }: Context<"apply">,
): Promise<PodChange> {
  const { provider, problems, resolve, status } = options;
  const { api, content } = state();
  const isFirst = !content.applied && !content.isAdmitted;
  const isKnown = isFirst && (await isFromBefore(provider, api.pod));
  const { generation } = api.pod.metadata;
  if (!content.applied && !isKnown) change({ kind: "judged", generation });
  if (isFirst && !isKnown) {
    await provider.admit?.(api.pod);
    change({ kind: "admitted" });
  }
  let resolved: ResolvedPod;
  try {
    resolved = await resolve(api.pod, content.applied);
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKnown) await provider.resume?.(api.pod);
    if (!content.applied && (await isOverdue(options, api.pod))) return expire(options, api.pod);
    throw error;
  }
  signal.throwIfAborted();
  change({ kind: "offered", generation });
  await problems.watch("apply", () => provider.apply(resolved, signal));
  if (!state().provider.isStatusInvalid) problems.clear();
  status.refresh();
  return { kind: "applied", revision: content.revision, resolved };
}

/**
 * Whether an earlier process has given the pod to its provider. Not so for one that has only waited, although it has a start
 * time.
 */
async function isFromBefore(provider: PodProvider, pod: Pod): Promise<boolean> {
  if (hasBegun(pod)) return true;
  if (pod.status?.startTime === undefined) return false;
  return (await provider.presence(pod.metadata.uid)) !== "absent";
}

/**
 * Whether a pod has waited for longer than it may be active. False if it may have run, or if its provider has it and knows how
 * it goes on.
 */
async function isOverdue({ provider, clock }: PodExecutorOptions, pod: Pod): Promise<boolean> {
  const { activeDeadlineSeconds = Number.POSITIVE_INFINITY } = pod.spec;
  const activeMs = clock.now() - Date.parse(pod.status?.startTime ?? "");
  if (!(activeMs >= activeDeadlineSeconds * 1000) || hasBegun(pod)) return false;
  return (await provider.presence(pod.metadata.uid)) === "absent";
}

/** Fails a pod that {@link isOverdue}, like a kubelet, which counts the wait for a ConfigMap or Secret. */
function expire({ clock, recordEvent, status }: PodExecutorOptions, pod: Pod): PodChange {
  recordEvent(pod, { type: "Normal", ...deadlineExceeded });
  status.write({ ...neverRunStatus(pod, wireTime(clock.now())), ...deadlineExceeded });
  return { kind: "rejected" };
}

/** Fails a pod that can never run here, with the kubelet's words before the reason. */
function reject(
  { clock, recordEvent, status }: PodExecutorOptions,
  pod: Pod,
  invalid: FoundError,
): PodChange {
  const message = errorText(invalid);
  const reason = typeof invalid.reason === "string" ? invalid.reason : "ProviderRejected";
  recordEvent(pod, { type: "Warning", reason, message });
  status.write({
    phase: "Failed",
    reason,
    message: `Pod was rejected: ${message}`,
    startTime: pod.status?.startTime ?? wireTime(clock.now()),
    qosClass: qosClass(pod),
  });
  return { kind: "rejected" };
}

/** Stops whatever is still running of a pod that is terminal in the API. Its object stays. */
async function finish(
  { provider, problems, logger }: PodExecutorOptions,
  { state, signal }: Context<"finish">,
): Promise<PodChange> {
  const { pod } = state().api;
  const call = async (): Promise<void> => provider.finish?.(pod, signal);
  try {
    await problems.watch("finish", call, gracePeriodSeconds(pod));
  } catch (error) {
    if (!findError(error, "VK_NOT_FOUND")) throw error;
  }
  logger.info("Stopped a pod that is terminal in the API");
  return { kind: "stopped" };
}

/** Starts a second, more urgent removal in parallel when the grace period is shortened. The step is done when either ends. */
async function remove(
  options: PodExecutorOptions,
  { graceSeconds }: StepOf<PodStepArgs, "remove">,
  { state, signal, onReplanned }: Context<"remove">,
): Promise<PodChange> {
  const { provider, problems, logger } = options;
  const done = Promise.withResolvers<void>();
  // Continues when the provider reports in the meantime that the pod is gone.
  const call = async (seconds: number): Promise<void> =>
    provider.remove(state().api.pod, seconds, options.signal);
  let shortest = graceSeconds;
  onReplanned((newer) => {
    if (newer.graceSeconds >= shortest) return;
    shortest = newer.graceSeconds;
    call(shortest).then(done.resolve, (err: unknown) => {
      // The first call continues, and is repeated if it fails.
      logger.warn("Could not speed up the removal of a pod", { err });
    });
  });
  problems.watch("remove", () => call(graceSeconds), graceSeconds).then(done.resolve, done.reject);
  try {
    await untilAborted(done.promise, signal);
  } catch (error) {
    if (!findError(error, "VK_NOT_FOUND") && !state().provider.isRemoved) throw error;
  }
  logger.info("Removed a pod", { graceSeconds: shortest });
  return { kind: "removed" };
}

/** Writes the last status and completes the deletion of the object. */
async function finalize(
  { client, nodeClient, clock, status }: PodExecutorOptions,
  { state }: Context<"finalize">,
): Promise<PodChange> {
  await status.idle();
  const { pod } = state().api;
  if (!isFinished(pod)) {
    // Also for a pod that never ran, because its Job waits for a terminal phase.
    status.write(goneStatus(pod, wireTime(clock.now())));
    await status.idle();
  }
  const { namespace, name, uid } = pod.metadata;
  // A conflict means that another pod has the name by now, which the watch will report, or that the server is busy. The step is
  // repeated until one of them is certain.
  const path = paths.pods(namespace, name);
  try {
    await nodeClient.delete(path, { uid, graceSeconds: 0 });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // To a node, the API server also answers this for a pod that its admission plugin NodeRestriction does not know yet.
    const found = await ignoreNotFound(client.get<Pod>(path));
    if (found?.metadata.uid === uid) throw error;
  }
  return { kind: "finalized" };
}

async function forget(
  { provider }: PodExecutorOptions,
  { state }: Context<"forget">,
): Promise<PodChange> {
  try {
    await provider.removeUnknown(state().api.pod.metadata.uid);
  } catch (error) {
    // Another removal that was still running may have been faster.
    if (!findError(error, "VK_NOT_FOUND")) throw error;
  }
  return { kind: "removed" };
}
