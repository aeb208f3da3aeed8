import { PassThrough } from "node:stream";
import { runCommand } from "@kip/base";

const nft = ["/usr/sbin/nft", "-f", "-"] as const;

/** Gives commands to nft as one transaction, and returns what it prints. @throws {CommandError} `COMMAND_FAILED` */
export async function runNft(text: string | PassThrough): Promise<string> {
  const [program, ...words] = nft;
  return (await runCommand(program, words, { input: text })).stdout;
}

/**
 * Runs nft. The first run has begun before and waits for its commands: the start of a program is what takes long of it, and
 * this one is over when the pod comes.
 */
export class WaitingNft {
  readonly #input = new PassThrough();
  #first: Promise<string> | undefined;

  constructor() {
    this.#first = runNft(this.#input);
    this.#first.catch(() => {}); // the first run reports it
  }

  /** As {@link runNft}. */
  async run(text: string): Promise<string> {
    const first = this.#first;
    this.#first = undefined;
    if (first) this.#input.end(text);
    return await (first ?? runNft(text));
  }
}
