import { PassThrough } from "node:stream";
import { pause, runCommand, systemClock, type Clock } from "@kip/base";

const nft = ["/usr/sbin/nft", "-f", "-"] as const;

/**
 * nft is killed after this time, milliseconds. The largest change takes less on a slow machine. Changes wait for each other, so
 * one that never ended would block all later ones.
 */
const limitMs = 600_000;

/** Options of {@link runNft} and {@link WaitingNft}. */
export interface NftOptions {
  /** @default the machine's */
  readonly clock?: Clock | undefined;
}

/**
 * Runs nft commands as one transaction, and returns its output.
 *
 * @throws {CommandError} `COMMAND_FAILED`, also if it takes longer than ten minutes and is killed
 */
export async function runNft(text: string, { clock }: NftOptions = {}): Promise<string> {
  const [program, ...words] = nft;
  return (await runCommand(program, words, { input: text, timeoutMs: limitMs, clock })).stdout;
}

/**
 * Runs nft. The first run starts in advance and waits for its commands. Most of its time is the start of the program, which is
 * over when the pod arrives.
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

  /** Like {@link runNft}. */
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
