import { errorText, withTimeout, type Clock } from "@kip/base";
import type { PodProvider } from "../pod-provider.ts";
import type { NotReady } from "./node-status.ts";

/**
 * Pings a provider, one call at a time. While a call is pending, no other one starts, and the provider counts as failing once
 * the time limit has passed.
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

  /** Undefined if the provider works, otherwise the reason. Never throws. */
  async ping(signal: AbortSignal): Promise<NotReady | undefined> {
    const error = (): Error =>
      new Error(`The provider did not answer a ping within ${this.#timeoutMs / 1000} s`);
    const options = { limitMs: this.#timeoutMs, clock: this.#clock, signal, error };
    try {
      return await withTimeout((limit) => this.#askOnce(limit), options);
    } catch (late) {
      return { reason: "ProviderNotResponding", message: errorText(late) };
    }
  }

  #askOnce(signal: AbortSignal): Promise<NotReady | undefined> {
    this.#running ??= this.#ask(signal).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
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
