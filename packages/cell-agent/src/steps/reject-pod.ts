import type { EndReason } from "../state/pod-state.ts";
import type { PodChange } from "../state/pod-change.ts";
import type { StepTools } from "./step-tools.ts";

/** Fails a pod permanently because the cell lacks something, with the message of a kubelet that does not admit it. */
export function rejectPod(
  { reason, message }: EndReason,
  { events, clock }: Pick<StepTools, "events" | "clock">,
): PodChange {
  events.warning(reason, message);
  const words = { reason, message: `Pod was rejected: ${message}` };
  return { kind: "end", graceMs: 0, nowMs: clock.now(), reason: words };
}
