import { errorText, type Clock } from "@kip/base";
import type { PodProvider } from "../pod-provider.ts";
import type { NotReady } from "./node-status.ts";

/**
 * Asks a provider whether it can work, one question at a time: while an answer is outstanding no
 * second ping starts, and the provider counts as failing once the time limit has passed.
 */
export class ProviderPing {
  readonly #provider: PodProvider;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  #running: Promise<NotReady | undefined> | undefined;

  constructor(provider: PodProvider, clock: Clock, timeoutMs: number) {
    this.#provider = provider;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Undefined if the provider works, else why not. Never throws. */
  async ping(signal: AbortSignal): Promise<NotReady | undefined> {
    const cancel = new AbortController();
    this.#running ??= this.#ask(AbortSignal.any([signal, cancel.signal])).finally(() => {
      this.#running = undefined;
    });
    const limit = new AbortController();
    const late = this.#clock.sleep(this.#timeoutMs, limit.signal).then(
      () => ({
        reason: "ProviderNotResponding",
        message: `The provider did not answer a ping within ${this.#timeoutMs / 1000} s`,
      }),
      () => undefined,
    );
    const answer = await Promise.race([this.#running, late]);
    limit.abort();
    if (answer?.reason === "ProviderNotResponding") cancel.abort();
    return answer;
  }

  async #ask(signal: AbortSignal): Promise<NotReady | undefined> {
    try {
      await this.#provider.ping(signal);
      return undefined;
    } catch (error) {
      return { reason: "ProviderNotReady", message: errorText(error) };
    }
  }
}
