import type { Pod } from "@kip/k8s-types";
import type { AgentPart } from "../state/cell-state.ts";

/** What a document costs the pod that it is made for: the time in which it can have another one in the long run, milliseconds. */
const documentMs = 10_000;
/** The same for each MiB of it: to make one of 8 MiB takes 60 ms, in which kip does nothing else. */
const mebibyteMs = 10_000;
/**
 * What a pod may have at once before it waits, milliseconds. It is enough for five small documents; one of any length goes at once
 * to a pod that has had none for a while.
 */
const creditMs = 45_000;

/** The longest pause before a version of the pod that is to end sooner than the one before, milliseconds. */
const deadlinePauseMs = 1000;

/** Notes that a document was made for the agent. */
export function withDocument(agent: AgentPart, bytes: number, nowMs: number): AgentPart {
  const costMs = documentMs + (mebibyteMs * bytes) / 2 ** 20;
  return { ...agent, documentsPaidAt: Math.max(agent.documentsPaidAt ?? nowMs, nowMs) + costMs };
}

/**
 * How long the newest version of the pod waits before it is sent, milliseconds; 0 or less: it does not. A pod that changes again and
 * again, or that mounts a ConfigMap that does, would otherwise take all of kip's time. A kubelet, too, takes up to a minute or so
 * until a pod has the new content of a ConfigMap.
 */
export function dispatchPauseMs({ documentsPaidAt }: AgentPart, nowMs: number): number {
  return documentsPaidAt === undefined ? 0 : documentsPaidAt - nowMs - creditMs;
}

/** Has a pod whose `activeDeadlineSeconds` became shorter end in time, however often it changes. */
export function withDeadline(
  agent: AgentPart,
  { before, next }: { readonly before: Pod | undefined; readonly next: Pod },
  nowMs: number,
): AgentPart {
  const { documentsPaidAt } = agent;
  const isShorter = deadlineOf(next) < deadlineOf(before);
  if (documentsPaidAt === undefined || !isShorter) return agent;
  const soonest = nowMs + creditMs + deadlinePauseMs;
  return { ...agent, documentsPaidAt: Math.min(documentsPaidAt, soonest) };
}

function deadlineOf(pod: Pod | undefined): number {
  return pod?.spec.activeDeadlineSeconds ?? Infinity;
}
