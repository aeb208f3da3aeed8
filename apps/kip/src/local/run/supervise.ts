import { systemClock, type Logger } from "@kip/base";
import { SupervisedProgram, type ProgramSpec } from "@kip/control-plane";

/** Size at which a new log file begins, bytes. One older file is kept. */
export const logLimitBytes = 16 * 2 ** 20;

/** Starts a program, and restarts it until it is disposed of. */
export function supervise(logger: Logger, spec: ProgramSpec): SupervisedProgram {
  const program = new SupervisedProgram(spec, systemClock);
  void program.start();
  program.supervise(({ name, reason }, restartInMs) => {
    logger.warn("Process ended and is started again", { process: name, reason, restartInMs });
  });
  return program;
}
