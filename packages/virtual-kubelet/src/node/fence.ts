import type { LeaderTerm } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";
import type { PodProvider } from "../pod-provider.ts";
import { boundOptionalParts } from "../providers/optional-calls.ts";

/**
 * Refuses calls that change a pod once the term of its replica may be over. The check before each call uses a clock that
 * continues while the process is suspended.
 */
export class Fence {
  /** The wrapped provider. */
  readonly provider: PodProvider;
  readonly #term: LeaderTerm;
  readonly #calls = new Set<Promise<void>>();

  constructor(provider: PodProvider, term: LeaderTerm) {
    this.#term = term;
    this.provider = {
      ...boundOptionalParts(provider),
      start: (callbacks) => provider.start({ ...callbacks, term: term.number }),
      stop: async () => provider.stop?.(),
      apply: (pod, signal) => this.#pass(() => provider.apply(pod, signal)),
      remove: (pod, graceSeconds, signal) =>
        this.#pass(() => provider.remove(pod, graceSeconds, signal)),
      ...(provider.finish && {
        finish: (pod: Pod, signal: AbortSignal) =>
          this.#pass(async () => provider.finish?.(pod, signal)),
      }),
      removeUnknown: (uid) => this.#pass(() => provider.removeUnknown(uid)),
      presence: (uid) => provider.presence(uid),
      list: () => provider.list(),
      nodeFacts: () => provider.nodeFacts(),
      ping: (signal) => provider.ping(signal),
    };
  }

  /** Whether a call that changes a pod is under way. */
  get isBusy(): boolean {
    return this.#calls.size > 0;
  }

  /** Resolves when no call is under way. */
  async idle(): Promise<void> {
    while (this.isBusy) await Promise.allSettled(this.#calls);
  }

  async #pass(call: () => Promise<void>): Promise<void> {
    if (!this.#term.isHeld())
      throw new VirtualKubeletError(
        "VK_FENCED",
        "Cannot touch a pod: another replica may run this node now",
      );
    const running = call();
    this.#calls.add(running);
    try {
      await running;
    } finally {
      this.#calls.delete(running);
    }
  }
}
