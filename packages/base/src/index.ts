export { AsyncQueue } from "./async-queue.ts";
export { backoffDelay, type BackoffOptions } from "./backoff.ts";
export { systemClock, type Clock } from "./clock.ts";
export * as decode from "./decode.ts";
export type { Decoded, Decoder } from "./decode.ts";
export { defined, type Defined } from "./defined.ts";
export {
  errorText,
  hasCode,
  isKipError,
  isRetryable,
  KipError,
  type KipErrorOptions,
} from "./errors.ts";
export { createFile, makeFolder, makeFolderSync, type MakeFolderOptions } from "./exact-mode.ts";
export { acquireFileLock, type FileLockOptions } from "./file-lock.ts";
export { globMatches, maxGlobLength } from "./glob.ts";
export { httpModule } from "./http-module.ts";
export {
  createLogger,
  logLevels,
  Secret,
  silentLogger,
  type LogFields,
  type Logger,
  type LoggerOptions,
  type LogLevel,
} from "./logger.ts";
export { mount, mountCommand, unmount, type Mount } from "./mount.ts";
export { nearest } from "./nearest.ts";
export { bytes, formatBytes, milliCpu, parseQuantity } from "./quantity.ts";
export { removeTree } from "./remove-tree.ts";
export { runCommand, type CommandResult, type RunCommandOptions } from "./run-command.ts";
export { helpText, parseOptions, type Option, type OptionValues } from "./options.ts";
export { waitingMount } from "./waiting-mount.ts";
export type { ProcessStreams, TerminalSize } from "./process-streams.ts";
export { untilAborted } from "./until-aborted.ts";
export { every, type EveryOptions } from "./waiting/every.ts";
export { pause } from "./waiting/pause.ts";
export { SerialQueue } from "./waiting/serial-queue.ts";
export { withTimeout, type TimeoutOptions } from "./waiting/with-timeout.ts";
export { watchOrPoll, type WatchOptions } from "./watch-or-poll.ts";
