import { backoffDelay, pause, type Clock, type Logger } from "@kip/base";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { Instances } from "../instance/instances.ts";
import { ownTags } from "../tags.ts";
import type { Interruptions } from "./interruptions.ts";
import type { Queue, QueueMessage } from "./queue.ts";
import { readEvent, type InterruptionEvent } from "./read-event.ts";

/** Options of {@link InterruptionReader}. */
export interface InterruptionReaderOptions {
  readonly open: () => Promise<Queue>;
  readonly ec2: Ec2;
  readonly instances: Instances;
  readonly interruptions: Interruptions;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Stops the reader. */
  readonly signal: AbortSignal;
}

/** Delays before the queue is read again after a failure, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 60_000 } as const;

/**
 * Reads interruption notices from a queue. The reader writes a notice to a tag of the instance, where every process sees it,
 * and then deletes the message. If it cannot write the tag, it receives the message again. It also deletes messages of other
 * owners' or ended instances, and messages that are not about an interruption.
 */
export class InterruptionReader {
  readonly #options: InterruptionReaderOptions;
  #isReading = false;

  constructor(options: InterruptionReaderOptions) {
    this.#options = options;
  }

  /** Starts reading, until the signal aborts or nothing listens to notices. May be called again. */
  start(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    void this.#read().finally(() => (this.#isReading = false));
  }

  /** Never throws. */
  async #read(): Promise<void> {
    const { open, interruptions, clock, logger, signal } = this.#options;
    using queues = new DisposableStack();
    let queue: Queue | undefined;
    let failures = 0;
    while (!signal.aborted && interruptions.isHeard) {
      try {
        queue ??= queues.use(await open());
        const messages = await queue.receive(signal);
        await Promise.all(messages.map(async (message) => await this.#take(message)));
        failures = 0;
      } catch (err) {
        if (signal.aborted) return;
        logger.warn("Could not read the queue of interruptions", { err });
        await pause(backoffDelay(failures++, backoff, err), clock, signal);
      }
    }
  }

  async #take(message: QueueMessage): Promise<void> {
    const { clock, logger, signal } = this.#options;
    try {
      const event = this.#event(message.body, clock.now());
      if (event !== "other") await this.#hand(event);
      await message.delete();
    } catch (err) {
      if (!signal.aborted)
        logger.warn("Could not note an interruption: its message is read again", { err });
    }
  }

  #event(body: string, nowMs: number): InterruptionEvent | "other" {
    try {
      return readEvent(body, nowMs);
    } catch (err) {
      this.#options.logger.warn("Ignored a message of the queue of interruptions", { err });
      return "other";
    }
  }

  async #hand({ instanceId, endsAtMs }: InterruptionEvent): Promise<void> {
    const { ec2, instances, interruptions } = this.#options;
    const seen = await instances.get(instanceId);
    if (!seen || !["pending", "running"].includes(seen.instance.state)) return;
    const endsAt = new Date(endsAtMs).toISOString();
    if (seen.interruption !== undefined && seen.interruption <= endsAt) return;
    interruptions.note(seen.instance, endsAt);
    await ec2.call(
      "CreateTags",
      { Resources: [instanceId], Tags: [{ Key: ownTags.interruption, Value: endsAt }] },
      { purpose: "note an interruption" },
    );
  }
}
