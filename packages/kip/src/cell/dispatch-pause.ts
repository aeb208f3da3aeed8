import type { Pod } from "@kip/k8s-types";
import type { AgentPart } from "../state/cell-state.ts";

/** The cost of each document to its pod, milliseconds. In the long run the pod gets one document in this time. */
const documentMs = 10_000;
/** The additional cost per MiB. Making a document of 8 MiB blocks kip for 60 ms. */
const mebibyteMs = 10_000;
/**
 * The cost that a pod may accumulate before it has to wait, milliseconds: five small documents. A document of any length is
 * sent at once if the pod has not had one for a while.
 */
const creditMs = 45_000;

/** The maximum cost of a document of a new pod that its agent refused, milliseconds. Three can be sent at once. */
const newPodMs = 22_500;
/**
 * Additional credit for a version that ends the pod sooner, milliseconds. One document of any length is sent although others
 * would have to wait. It costs as much as others, so a deadline that is shortened repeatedly is not sent more often in the long
 * run.
 */
const deadlineCreditMs = 90_000;
/** How long such a version waits for another one with an even earlier end, milliseconds. */
const deadlinePauseMs = 1000;

/** Charges a document that was made for the agent. It costs less if the pod is new and the agent refused it. */
export function withDocument(
  agent: AgentPart,
  { bytes, isNewPod }: { readonly bytes: number; readonly isNewPod: boolean },
  nowMs: number,
): AgentPart {
  const wholeMs = documentMs + (mebibyteMs * bytes) / 2 ** 20;
  const costMs = isNewPod ? Math.min(wholeMs, newPodMs) : wholeMs;
  return { ...agent, documentsPaidAt: Math.max(agent.documentsPaidAt ?? nowMs, nowMs) + costMs };
}

/**
 * How long the newest version of the pod waits before it is sent, milliseconds. 0 or less means no wait. Otherwise a pod that
 * changes all the time, or mounts a ConfigMap that does, would use all of kip's time. With a kubelet, a pod also gets the new
 * content of a ConfigMap only after a minute or so.
 */
export function dispatchPauseMs(
  { documentsPaidAt, endsSoonerAt }: AgentPart,
  nowMs: number,
): number {
  if (documentsPaidAt === undefined) return 0;
  const pauseMs = documentsPaidAt - nowMs - creditMs;
  if (endsSoonerAt === undefined) return pauseMs;
  return Math.min(pauseMs, Math.max(pauseMs - deadlineCreditMs, endsSoonerAt - nowMs));
}

/** Records that the pod's `activeDeadlineSeconds` became shorter, until its newest version is sent. */
export function withDeadline(
  agent: AgentPart,
  { before, next }: { readonly before: Pod | undefined; readonly next: Pod },
  nowMs: number,
): AgentPart {
  if (agent.endsSoonerAt !== undefined || deadlineOf(next) >= deadlineOf(before)) return agent;
  return { ...agent, endsSoonerAt: nowMs + deadlinePauseMs };
}

function deadlineOf(pod: Pod | undefined): number {
  return pod?.spec.activeDeadlineSeconds ?? Infinity;
}
