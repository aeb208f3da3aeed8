import type { DesiredHook, DesiredPod } from "@kip/agent-api";
import { runHook } from "../checks/handlers.ts";
import type { ContainerRun } from "../state/container-record.ts";
import { present, recordOf, targetOf, type PodStepContext, type StepTools } from "./step-tools.ts";

/** Runs the hook, if there is one. Returns false if it failed and the container has to be killed. */
export async function postStart(
  run: ContainerRun,
  { state, change, signal }: PodStepContext<"start">,
  tools: StepTools,
  container: string,
): Promise<boolean> {
  const { postStart: hook } = recordOf(state(), container).desired;
  if (!hook) return true;
  const pod = present(state().desired);
  const result = await runHook(hook, targetOf(run.id, pod, tools), signal, tools.events);
  // The pod should end, or the container has ended.
  if (result.isSuccess || signal.aborted) return true;
  tools.events.warning("FailedPostStartHook", "PostStartHook failed", container);
  const message = `${hookName(hook)} for Container "${container}" in Pod "${podName(pod)}" failed - error: ${result.output}`;
  change({ kind: "killWanted", container, cause: { kind: "postStart", message } });
  return false;
}

function hookName({ exec, httpGet }: DesiredHook): string {
  if (exec) return `Exec lifecycle hook ([${exec.command.join(" ")}])`;
  return httpGet ? `HTTP lifecycle hook (${httpGet.path})` : "Cannot run handler";
}

function podName({ name, namespace, uid }: DesiredPod): string {
  return `${name}_${namespace}(${uid})`;
}
