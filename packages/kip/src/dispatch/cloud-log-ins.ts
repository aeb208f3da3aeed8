import { type Clock, type Logger } from "@kip/base";
import type { RegistryLogIn, RegistryLogIns } from "@kip/cloud";

/** Result of {@link CloudLogIns.find}. */
export interface FoundLogIns {
  readonly logIns: ReadonlyMap<string, RegistryLogIn>;
  /** When to ask again, in milliseconds: the first login expires soon after, or one is missing. */
  readonly renewInMs?: number;
}

/** Maximum number of cached logins. Pods name their registries, and a cloud may have a login for each of many names. */
const maxKnown = 1000;

/** Pause after a failure, and for a login that expires very soon, milliseconds. */
const shortestMs = 60_000;

/**
 * The cloud's logins for its own registries, shared by all pods. A login is no longer returned after half of its lifetime.
 * Callers ask again after three quarters.
 */
export class CloudLogIns {
  readonly #source: RegistryLogIns;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #known = new Map<
    string,
    { readonly logIn: RegistryLogIn; readonly freshUntil: number }
  >();

  constructor(source: RegistryLogIns, options: { readonly clock: Clock; readonly logger: Logger }) {
    this.#source = source;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  /**
   * Asks for logins for these registries. Never throws for a failure, because the image may be public. @throws the signal's
   * reason
   */
  async find(hosts: readonly string[], signal?: AbortSignal): Promise<FoundLogIns> {
    const logIns = new Map<string, RegistryLogIn>();
    const renewals: number[] = [];
    for (const host of hosts) {
      try {
        const logIn = await this.#one(host, signal);
        if (!logIn) continue;
        logIns.set(host, logIn);
        if (logIn.expiresAt !== undefined) renewals.push(this.#leftMs(logIn) * 0.75);
      } catch (error) {
        signal?.throwIfAborted();
        this.#logger.warn("Could not get a log-in from the cloud", { registry: host, err: error });
        renewals.push(shortestMs);
      }
    }
    if (renewals.length === 0) return { logIns };
    return { logIns, renewInMs: Math.max(shortestMs, Math.min(...renewals)) };
  }

  async #one(host: string, signal: AbortSignal | undefined): Promise<RegistryLogIn | undefined> {
    const known = this.#known.get(host);
    if (known && known.freshUntil > this.#clock.now()) return known.logIn;
    const logIn = await this.#source.registryLogIn(host, signal);
    if (!logIn) return undefined;
    const left = logIn.expiresAt === undefined ? Number.POSITIVE_INFINITY : this.#leftMs(logIn);
    this.#known.delete(host); // the newest are last
    this.#known.set(host, { logIn, freshUntil: this.#clock.now() + left / 2 });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= maxKnown) break;
      this.#known.delete(oldest);
    }
    return logIn;
  }

  #leftMs({ expiresAt = "" }: RegistryLogIn): number {
    return Math.max(0, Date.parse(expiresAt) - this.#clock.now());
  }
}
