import type { DesiredContainer } from "@kip/agent-api";
import { errorText } from "@kip/base";
import { runHook, type CheckTarget } from "../checks/handlers.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import type { ContainerRun } from "../state/container-record.ts";
import type { PodEvents } from "../state/pod-events.ts";
import type { GracePeriod } from "./grace-period.ts";

/** Minimum time of a container after its stop signal, as in the kubelet, however short its grace period is. */
const minGraceMs = 2000;

/**
 * Ends a container: runs its preStop hook, sends its stop signal when its turn has come, and SIGKILL when the grace period is
 * over. The runtime reports the end itself by an event. This resolves when nothing more can be done to cause it.
 */
export async function stopContainer(
  run: ContainerRun,
  options: {
    readonly container: DesiredContainer;
    readonly grace: GracePeriod;
    /** Aborts when the container has ended. */
    readonly ended: AbortSignal;
    /** Aborts when the containers that have to end first have ended. Has no effect once the period is over. */
    readonly turn: AbortSignal;
    readonly target: CheckTarget;
    readonly dependencies: Pick<AgentDependencies, "runtime">;
    readonly events: PodEvents;
  },
): Promise<void> {
  const { container, grace, ended, dependencies } = options;
  const { runtime } = dependencies;
  if (container.preStop && grace.remainingMs() > 0) {
    using limit = grace.limit();
    const signal = AbortSignal.any([ended, limit.signal]);
    const result = await runHook(container.preStop, options.target, signal, options.events);
    if (!result.isSuccess && !ended.aborted)
      options.events.warning("FailedPreStopHook", "PreStopHook failed", container.name);
  }
  await grace.passes(AbortSignal.any([ended, options.turn]));
  if (ended.aborted) return;
  if (await sendStopSignal(run, options)) await grace.passes(ended, minGraceMs);
  if (!ended.aborted) await runtime.kill(run.id, "SIGKILL", true);
}

/** Sends the stop signal. An image may name a signal that does not exist, and then there is none to send. */
async function sendStopSignal(
  { id, stopSignal }: ContainerRun,
  { container, dependencies, events }: Parameters<typeof stopContainer>[1],
): Promise<boolean> {
  try {
    await dependencies.runtime.kill(id, stopSignal);
    return true;
  } catch (error) {
    const message = `error killing pod: cannot send ${stopSignal} to container ${container.name}: ${errorText(error)}`;
    events.warning("FailedKillPod", message);
    return false;
  }
}
