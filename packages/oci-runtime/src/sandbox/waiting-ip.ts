import { PassThrough } from "node:stream";
import { runCommand } from "@kip/base";

/**
 * An `ip -batch` process that has run its first lines and waits for more. Starting the program takes most of the time, and that
 * is done before the pod arrives.
 */
export class WaitingIp {
  readonly #input: PassThrough;
  readonly #end: Promise<unknown>;

  private constructor(input: PassThrough, end: Promise<unknown>) {
    this.#input = input;
    this.#end = end;
  }

  /**
   * Resolves when the lines have been run.
   *
   * @param start a command line that is prepended to `ip -batch -`
   * @throws {CommandError} `COMMAND_FAILED`
   */
  static async begin(start: readonly string[], lines: readonly string[]): Promise<WaitingIp> {
    const input = new PassThrough();
    const [file, ...args] = [...start, "/usr/sbin/ip", "-batch", "-"];
    const answer = Promise.withResolvers<void>();
    const end = runCommand(file, args, { input, onOutput: () => answer.resolve() });
    // The error surfaces below or in finish().
    end.catch(() => {});
    // The last line prints something, which shows that the lines before it were run.
    input.write(batch([...lines, "link show dev lo"]));
    await Promise.race([answer.promise, end]);
    return new WaitingIp(input, end);
  }

  /** Runs more lines and ends the process. A second call only ends it. @throws {CommandError} `COMMAND_FAILED` */
  async finish(lines: readonly string[]): Promise<void> {
    if (!this.#input.writableEnded) this.#input.end(batch(lines));
    await this.#end;
  }
}

function batch(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
