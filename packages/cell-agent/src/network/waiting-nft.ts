import { PassThrough } from "node:stream";
import { pause, runCommand, systemClock, type Clock } from "@kip/base";

const nft = ["/usr/sbin/nft", "-f", "-"] as const;

/**
 * After so long nft is killed, milliseconds: the largest change takes less on a slow machine. Changes wait for each other, so one that
 * never ended would hold up all later ones.
 */
const limitMs = 600_000;

/** Options of {@link runNft} and {@link WaitingNft}. */
export interface NftOptions {
  /** @default the machine's */
  readonly clock?: Clock | undefined;
}

/**
 * Gives commands to nft as one transaction, and returns what it prints.
 *
 * @throws {CommandError} `COMMAND_FAILED`; also if it takes longer than ten minutes, and it is killed then
 */
export async function runNft(text: string, { clock }: NftOptions = {}): Promise<string> {
  const [program, ...words] = nft;
  return (await runCommand(program, words, { input: text, timeoutMs: limitMs, clock })).stdout;
}

/**
 * Runs nft. The first run has begun before and waits for its commands: the start of a program is what takes long of it, and
 * this one is over when the pod comes.
 */
export class WaitingNft {
  readonly #input = new PassThrough();
  readonly #options: NftOptions;
  readonly #late = new AbortController();
  #first: Promise<string> | undefined;

  constructor(options: NftOptions = {}) {
    this.#options = options;
    const [program, ...words] = nft;
    const signal = this.#late.signal;
    this.#first = runCommand(program, words, { input: this.#input, signal }).then(
      ({ stdout }) => stdout,
    );
    this.#first.catch(() => {}); // the first run reports it
  }

  /** As {@link runNft}. */
  async run(text: string): Promise<string> {
    const first = this.#first;
    this.#first = undefined;
    if (!first) return await runNft(text, this.#options);
    this.#input.end(text);
    const end = new AbortController();
    void pause(limitMs, this.#options.clock ?? systemClock, end.signal).then((isOver) => {
      if (isOver)
        this.#late.abort(new DOMException("It took longer than ten minutes", "TimeoutError"));
    });
    try {
      return await first;
    } finally {
      end.abort();
    }
  }
}
