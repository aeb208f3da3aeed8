import { exitReport } from "../container/exit-report.ts";
import { runDirectory } from "../container/start-container.ts";
import { terminationMessage } from "../container/termination-message.ts";
import type { ContainerRecord, ContainerRun } from "../state/container-record.ts";
import { shownId } from "../state/run-id.ts";
import { present, recordOf, type Executor, type StepTools } from "./step-tools.ts";

/** Records how a run ended, with its termination message. The step `discard` removes the run. */
export const noteExit: Executor<"noteExit"> = async ({ container, runId }, { state }, tools) => {
  const record = recordOf(state(), container);
  const exit = present(record.exited);
  const run = present(record.saved.run);
  const message = exit.lost ? undefined : await readMessage(record, run, exit.exitCode, tools);
  const { clock, logger } = tools;
  // The step `start` may have reported the start while the message was read.
  const { startedAtMs } = recordOf(state(), container).saved.run ?? run;
  const containerId = shownId(present(state().desired).uid, container, run.attempt);
  logger.info("Container ended", { container, exitCode: exit.exitCode });
  return {
    kind: "ended",
    container,
    runId,
    exit: exitReport(exit, { message, startedAtMs, containerId }),
    endedAtMs: exit.finishedAtMs,
    nowMs: clock.now(),
    needsDiscard: true,
  };
};

/** The termination message. Undefined if there is none, or it cannot be read. */
async function readMessage(
  { desired: container }: ContainerRecord,
  run: ContainerRun,
  exitCode: number,
  { dependencies: { runtime }, directories, clock, logger }: StepTools,
): Promise<string | undefined> {
  const { terminationFile } = runDirectory(directories, run);
  try {
    return await terminationMessage({
      ...run,
      container,
      exitCode,
      terminationFile,
      runtime,
      clock,
    });
  } catch (error) {
    logger.warn("Could not read a termination message", { container: container.name, err: error });
    return undefined;
  }
}
