import type { ServerHttp2Stream } from "node:http2";
import { AgentError } from "@kip/agent-api";
import { errorText, untilAborted, type Clock } from "@kip/base";
import { ChangeReader, unknownSums, policyVersion, type ViewChange } from "@kip/network-view";
import { GarbageOfBulk } from "../memory/garbage-of-bulk.ts";
import type { PodRules } from "./pod-rules.ts";

/** A change that has arrived and is not in force yet. */
interface Pending {
  readonly change: ViewChange;
  readonly inForce: PromiseWithResolvers<void>;
}

/** An empty change. Applying it writes rules again that could not be put in force. */
const nothing: ViewChange = { number: 0, services: new Map(), buckets: [], groups: [] };

/**
 * Receives kip's changes of the cluster's network, one at a time. The next one is read when the previous one is in force, and
 * none is read before there is a pod to make rules for.
 */
export class CellNetwork implements Disposable {
  readonly #garbage: GarbageOfBulk;
  #stream: ServerHttp2Stream | undefined;
  #rules: PodRules | undefined;
  #pending: Pending | undefined;
  #arrived = Promise.withResolvers<void>();
  /** Whether the rules have a change that is not in force. */
  #isBehind = false;

  constructor(clock: Clock) {
    this.#garbage = new GarbageOfBulk(clock);
  }

  /** Serves `POST /v1/network` until the stream is closed, or another stream replaces it. */
  async serve(stream: ServerHttp2Stream): Promise<void> {
    this.#stream?.destroy();
    this.#stream = stream;
    this.#pending = undefined;
    stream.respond({ ":status": 200, "content-type": "application/x-ndjson" });
    send(stream, { sums: this.#rules?.sums ?? unknownSums(), policyVersion });
    const gone = new AbortController();
    stream.once("close", () => gone.abort());
    const reader = new ChangeReader();
    try {
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        for (const change of reader.push(chunk)) {
          await this.#hand(change, gone.signal);
          send(stream, { applied: change.number });
        }
        this.#garbage.note(chunk.length);
      }
    } catch (error) {
      // Kip has gone away, or has reconnected.
      if (!stream.destroyed) throw error;
    }
  }

  /**
   * Waits for the next change, and puts it in force. After a failure, the next call writes everything again.
   *
   * @param createRules called once
   * @throws {AgentError} code `AGENT_NETWORK_FAILED`; the signal's reason
   */
  async applyNext(createRules: () => PodRules, signal: AbortSignal): Promise<void> {
    while (!this.#pending && !this.#isBehind) await untilAborted(this.#arrived.promise, signal);
    const pending = this.#pending;
    this.#rules ??= createRules();
    try {
      // After a failure, the rules already have the pending change. Applying it again has no effect.
      this.#isBehind = true;
      await this.#rules.apply(pending?.change ?? nothing);
      this.#isBehind = false;
    } catch (error) {
      throw new AgentError(
        "AGENT_NETWORK_FAILED",
        `Cannot put the pod's network rules in force: ${errorText(error)}`,
        { cause: error, retryable: true },
      );
    }
    pending?.inForce.resolve();
    if (this.#pending === pending) this.#pending = undefined;
  }

  [Symbol.dispose](): void {
    this.#stream?.destroy();
    this.#garbage[Symbol.dispose]();
  }

  async #hand(change: ViewChange, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const pending = { change, inForce: Promise.withResolvers<void>() };
    this.#pending = pending;
    this.#arrived.resolve();
    this.#arrived = Promise.withResolvers();
    await untilAborted(pending.inForce.promise, signal);
  }
}

function send(stream: ServerHttp2Stream, line: object): void {
  if (!stream.destroyed) stream.write(`${JSON.stringify(line)}\n`);
}
