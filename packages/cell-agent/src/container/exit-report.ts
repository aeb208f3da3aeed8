import type { TerminatedReport } from "@kip/agent-api";
import { defined } from "@kip/base";
import type { ContainerExit } from "@kip/oci-runtime";
import { seconds } from "../state/report.ts";

/** How a run ended, in the kubelet's form. */
export function exitReport(
  exit: ContainerExit,
  run: {
    /** The container's termination message. */
    readonly message: string | undefined;
    readonly startedAtMs: number | undefined;
    /** The ID that the API shows. */
    readonly containerId: string;
  },
): TerminatedReport {
  const lost = "The container could not be located when the agent looked";
  const message = exit.lost ? lost : run.message;
  return defined({
    exitCode: exit.lost ? 137 : exit.exitCode,
    reason: exitReason(exit),
    message,
    startedAt: run.startedAtMs === undefined ? undefined : seconds(run.startedAtMs),
    finishedAt: seconds(exit.finishedAtMs),
    containerId: run.containerId,
  });
}

/** The end of a run whose process could not be started. It is the container's fault, so it counts for the restart policy. */
export function startErrorReport(options: {
  readonly message: string;
  readonly nowMs: number;
  readonly containerId: string;
}): TerminatedReport {
  return {
    exitCode: 128,
    reason: "StartError",
    message: options.message,
    startedAt: seconds(0), // the kubelet's value for "never"
    finishedAt: seconds(options.nowMs),
    containerId: options.containerId,
  };
}

function exitReason(exit: ContainerExit): string {
  if (exit.lost) return "ContainerStatusUnknown";
  if (exit.oomKilled) return "OOMKilled";
  return exit.exitCode === 0 ? "Completed" : "Error";
}
