import { PassThrough } from "node:stream";
import { runCommand } from "@kip/base";

/**
 * An `ip -batch` that has started, done its first lines, and waits for more. The start of a program is
 * what takes long of it: this one is over when the pod comes.
 */
export class WaitingIp {
  readonly #input: PassThrough;
  readonly #end: Promise<unknown>;

  private constructor(input: PassThrough, end: Promise<unknown>) {
    this.#input = input;
    this.#end = end;
  }

  /**
   * Resolves when the lines are done.
   * @param start a command line that `ip -batch -` is put behind
   * @throws {CommandError} `COMMAND_FAILED`
   */
  static async begin(start: readonly string[], lines: readonly string[]): Promise<WaitingIp> {
    const input = new PassThrough();
    const [file, ...args] = [...start, "/usr/sbin/ip", "-batch", "-"];
    const answer = Promise.withResolvers<void>();
    const end = runCommand(file, args, { input, onOutput: () => answer.resolve() });
    // Told to who waits for it, now or in finish().
    end.catch(() => {});
    // The last line prints something: what says that those before it are done.
    input.write(batch([...lines, "link show dev lo"]));
    await Promise.race([answer.promise, end]);
    return new WaitingIp(input, end);
  }

  /** Does further lines, and ends; only ends, the second time. @throws {CommandError} `COMMAND_FAILED` */
  async finish(lines: readonly string[]): Promise<void> {
    if (!this.#input.writableEnded) this.#input.end(batch(lines));
    await this.#end;
  }
}

function batch(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
