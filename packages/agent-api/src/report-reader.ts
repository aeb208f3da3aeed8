import type { Readable } from "node:stream";
import { bytesOf, systemClock } from "@kip/base";
import { decodeAnswer } from "./answers.ts";
import { EventLoopBudget, pieceCostMs } from "./event-loop-budget.ts";
import { LatestLine, longestReport } from "./latest-line.ts";
import { decodePodReport, type PodReport } from "./pod-report.ts";

/** CPU time for a byte of a body, as in {@link pieceCostMs}. */
const byteCostMs = 1e-5;
/** Cost of a report that is not measured here, such as its writes to the API, milliseconds. */
const reportCostMs = 2;

/** Reads the newest report of a status stream, at a rate that leaves time for other cells. */
export class ReportReader {
  readonly #lines: LatestLine;
  /** A cell that sends without pause is read slowly. HTTP/2 flow control makes it wait. */
  readonly #budget = new EventLoopBudget(systemClock);
  readonly #signal: AbortSignal;

  /** @param containers returns the current number of the pod's containers, of all kinds */
  constructor(containers: () => number, signal: AbortSignal) {
    this.#lines = new LatestLine(() => longestReport(containers()));
    this.#signal = signal;
  }

  /** Counts a piece of the stream that has arrived, before it is read. */
  received(bytes: number): void {
    this.#budget.charge(pieceCostMs + bytes * byteCostMs);
  }

  /** Reads until the end of the stream. @throws {AgentError} code `AGENT_ANSWER_INVALID` */
  async *read(stream: Readable): AsyncGenerator<PodReport, void, void> {
    const chunks = bytesOf(stream)[Symbol.asyncIterator]();
    try {
      const take = async () => await this.#next(chunks);
      for (let next = await take(); next.done !== true; next = await take())
        if (next.value) yield next.value;
    } finally {
      await chunks.return?.();
    }
  }

  /**
   * Reads the next chunk, and returns the report that it completes, if any. This is a separate function, because a loop over
   * the stream would keep the chunk, and with it a 64 KiB pool, until the cell sends something again.
   */
  async #next(chunks: AsyncIterator<Buffer>): Promise<IteratorResult<PodReport | undefined, void>> {
    const chunk = await chunks.next();
    if (chunk.done === true) return { done: true, value: undefined };
    const line = this.#budget.spend(() => this.#lines.push(chunk.value));
    await this.#budget.settle(this.#signal);
    if (line === undefined) return { value: undefined };
    this.#budget.charge(reportCostMs);
    return { value: this.#budget.spend(() => decodeAnswer(line, decodePodReport)) };
  }
}
