// Errors, data and logs
export {
  errorText,
  isCodedError,
  isRetryable,
  isSystemError,
  CodedError,
  type CodedErrorOptions,
  type SystemErrorCode,
} from "./coded-error.ts";
export {
  CommandError,
  DecodeError,
  LockError,
  OptionError,
  type CommandErrorCode,
  type CommandErrorOptions,
  type DecodeErrorCode,
  type LockErrorCode,
  type OptionErrorCode,
} from "./errors.ts";
export * as decode from "./decode.ts";
export type { Decoded, Decoder } from "./decode.ts";
export { defined, type Defined } from "./defined.ts";
export { expandReferences, referencesIn } from "./references.ts";
export { textBefore } from "./text-before.ts";
export { globMatches, maxGlobLength } from "./glob.ts";
export {
  bytes,
  formatBytes,
  formatDecimal,
  formatMilliCpu,
  milliCpu,
  parseQuantity,
} from "./quantity.ts";
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

// Time and waiting
export { systemClock, type Clock } from "./clock.ts";
export { AsyncQueue } from "./waiting/async-queue.ts";
export { backoffDelay, type BackoffOptions } from "./waiting/backoff.ts";
export { every, type EveryOptions } from "./waiting/every.ts";
export { Fifo } from "./waiting/fifo.ts";
export { inParallel } from "./waiting/in-parallel.ts";
export { pause } from "./waiting/pause.ts";
export { SerialQueue } from "./waiting/serial-queue.ts";
export { untilAborted } from "./waiting/until-aborted.ts";
export { withTimeout, type TimeoutOptions } from "./waiting/with-timeout.ts";

// Programs, files and mounts of this machine
export { hostArchitecture, type Architecture } from "./host/architecture.ts";
export {
  createFile,
  makeFolder,
  makeFolderSync,
  type MakeFolderOptions,
} from "./host/exact-mode.ts";
export {
  endProcesses,
  type EndedProcesses,
  type EndProcessesOptions,
} from "./host/end-processes.ts";
export { acquireFileLock, type FileLockOptions } from "./host/file-lock.ts";
export { mount, mountCommand, unmount, type Mount } from "./host/mount.ts";
export { namesIn } from "./host/names-in.ts";
export { readJsonRecord } from "./host/read-json-record.ts";
export {
  identifyProcess,
  isProcessRunning,
  listProcesses,
  readArguments,
  readEnvironment,
  readProcess,
  signalProcess,
  thisProcess,
  type ProcessIdentity,
  type ProcessStatus,
} from "./host/processes.ts";
export { removeTree } from "./host/remove-tree.ts";
export { begunStream } from "./host/begun-stream.ts";
export { GrowingBuffer } from "./host/growing-buffer.ts";
export { holdSmallWrites } from "./host/hold-small-writes.ts";
export { mergeSmallPieces, type PiecePace } from "./host/merge-small-pieces.ts";
export { bytesOf, hasPipes, portOf } from "./host/node-objects.ts";
export { runCommand, type CommandResult, type RunCommandOptions } from "./host/run-command.ts";
export { mapOwners } from "./host/map-owners.ts";
export { waitingMount } from "./host/waiting-mount.ts";
export { watchOrPoll, type WatchOptions } from "./host/watch-or-poll.ts";
export { httpModule } from "./http-module.ts";
export { ownValue } from "./own-value.ts";
export type { ProcessStreams, TerminalSize } from "./process-streams.ts";

// Command lines
export { nearest } from "./nearest.ts";
export {
  helpText,
  parseOptions,
  uselessOptions,
  type Option,
  type OptionValues,
} from "./command-line/options.ts";
