import { pause } from "@kip/base";
import { GracePeriod } from "../container/grace-period.ts";
import { stopContainer } from "../container/stop-container.ts";
import { endIn } from "../state/pod-end.ts";
import {
  present,
  recordOf,
  targetOf,
  type Executor,
  type PodStepContext,
  type StepTools,
} from "./step-tools.ts";

/** Delay before a container that could not be stopped is stopped again, milliseconds. */
const stopAgainMs = 1000;

/** Ends the container. The plan cancels this step when the container has ended. */
export const stop: Executor<"stop"> = async (step, context, tools) => {
  const { container: name, message, restarts, graceSeconds } = step;
  const { signal: ended, state } = context;
  const { dependencies, events, clock, logger } = tools;
  const { desired: container, saved } = recordOf(state(), name);
  const run = present(saved.run);
  const grace = graceOf(graceSeconds, context, tools);
  const turn = new AbortController();
  if (step.hasTurn) turn.abort(hasCome);
  context.onReplanned((newer) => {
    const { end } = state();
    if (end) grace.shorten(end);
    if (newer.hasTurn) turn.abort(hasCome);
  });
  context.change({ kind: "stopBegun", container: name, message, restarts, graceSeconds });
  events.normal("Killing", message, name);
  try {
    const target = targetOf(run.id, present(state().desired), tools);
    const options = { container, grace, ended, turn: turn.signal, target, dependencies, events };
    await stopContainer(run, options);
    await pause(Number.POSITIVE_INFINITY, clock, ended);
  } catch (error) {
    logger.error("Could not stop a container", { container: name, err: error });
    await pause(stopAgainMs, clock, ended);
  }
  return { kind: "stopOver", container: name };
};

/** The container's grace period: its own or the pod's, but not longer than the pod's once that is ending. */
function graceOf(
  ownSeconds: number | undefined,
  { state }: PodStepContext<"stop">,
  { clock }: StepTools,
): GracePeriod {
  const { end, desired } = state();
  const seconds = ownSeconds ?? present(desired).terminationGracePeriodSeconds;
  return new GracePeriod(clock, end ?? endIn(seconds * 1000, clock.now()));
}

/** Created once, because aborting without a reason creates one with a stack trace. */
const hasCome = new DOMException("Its turn has come", "AbortError");
