import { PassThrough } from "node:stream";
import { runCommand, type CommandResult } from "@kip/base";

const nft = ["/usr/sbin/nft", "-f", "-"] as const;

/**
 * Runs nft. The first run has begun before and waits for its commands: the start of a program is what takes long of it, and
 * this one is over when the pod comes.
 */
export class WaitingNft {
  readonly #input = new PassThrough();
  #first: Promise<CommandResult> | undefined;

  constructor() {
    const [program, ...words] = nft;
    this.#first = runCommand(program, words, { input: this.#input });
    this.#first.catch(() => {}); // the first run reports it
  }

  /** Gives commands to nft as one transaction, and returns what it prints. @throws {CommandError} `COMMAND_FAILED` */
  async run(text: string): Promise<string> {
    const first = this.#first;
    this.#first = undefined;
    if (first) this.#input.end(text);
    const [program, ...words] = nft;
    const { stdout } = await (first ?? runCommand(program, words, { input: text }));
    return stdout;
  }
}
