import type { EndReason } from "../state/pod-state.ts";
import type { PodChange } from "../state/pod-change.ts";
import type { StepTools } from "./step-tools.ts";

/** Ends a pod that the cell does not have what it asks for, as a kubelet does that does not admit it: with its words, and for good. */
export function rejectPod(
  { reason, message }: EndReason,
  { events, clock }: Pick<StepTools, "events" | "clock">,
): PodChange {
  events.warning(reason, message);
  const words = { reason, message: `Pod was rejected: ${message}` };
  return { kind: "end", graceMs: 0, nowMs: clock.now(), reason: words };
}
