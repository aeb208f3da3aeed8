import { runHook } from "../checks/handlers.ts";
import type { ContainerRun } from "../state/container-record.ts";
import { present, recordOf, targetOf, type PodStepContext, type StepTools } from "./step-tools.ts";

/** Runs the hook, if there is one; false if it failed and the container is to be killed. */
export async function postStart(
  run: ContainerRun,
  { state, change, signal }: PodStepContext<"start">,
  tools: StepTools,
  container: string,
): Promise<boolean> {
  const { postStart: hook } = recordOf(state(), container).desired;
  if (!hook) return true;
  const target = targetOf(run.id, present(state().desired), tools);
  const result = await runHook(hook, target, signal);
  // The pod is to end, or the container has.
  if (result.isSuccess || signal.aborted) return true;
  tools.events.warning("FailedPostStartHook", "PostStartHook failed", container);
  change({ kind: "killWanted", container, message: "FailedPostStartHook" });
  return false;
}
