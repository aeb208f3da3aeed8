import { present, type Executor } from "./step-tools.ts";

/** Ends a pod that has run too long. */
export const expire: Executor<"expire"> = async (_step, { state }, { events, clock }) => {
  const { terminationGracePeriodSeconds } = present(state().desired);
  const reason = "DeadlineExceeded";
  const message = "Pod was active on the node longer than the specified deadline";
  events.normal(reason, message);
  const graceMs = terminationGracePeriodSeconds * 1000;
  return { kind: "end", graceMs, nowMs: clock.now(), reason: { reason, message } };
};
