import { errorText, type CodedErrorOptions } from "@kip/base";
import { CloudError } from "@kip/cloud";

/** Options of {@link MachineError}. */
export interface MachineErrorOptions extends Pick<CodedErrorOptions, "cause" | "remedy"> {
  /** The end of the machine's console. @default unknown */
  readonly console?: string | undefined;
}

/** A machine or its QEMU failed: `CLOUD_UNAVAILABLE`. */
export class MachineError extends CloudError {
  /** The reason without the failed action, for the message of another error. */
  readonly reason: string;
  readonly console: string | undefined;

  /** @param problem the failed action, for example "Cannot run QEMU" */
  constructor(problem: string, reason: string, options: MachineErrorOptions = {}) {
    super("CLOUD_UNAVAILABLE", `${problem}: ${reason}`, options);
    this.reason = reason;
    this.console = options.console;
  }
}

/** The reason of a machine's error, which is QEMU's message. The whole text of any other error. */
export function reasonOf(error: unknown): string {
  return error instanceof MachineError ? error.reason : errorText(error);
}
