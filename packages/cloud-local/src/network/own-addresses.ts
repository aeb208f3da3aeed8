import { networkInterfaces } from "node:os";
import type { Clock } from "@kip/base";

/**
 * How old addresses may be when a client comes, milliseconds. To list them takes 0.5 ms with 5 devices and 28 ms with 400, and anyone who
 * reaches a port decides how many clients come.
 */
const maxAgeMs = 1000;

/** IPv4 addresses of this computer. */
export class OwnAddresses {
  readonly #clock: Pick<Clock, "monotonic">;
  #known: readonly string[] = [];
  #listedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** All that there are now; those of the last list if this process has no descriptor left to ask for them. */
  list(): readonly string[] {
    this.#listedAtMs = this.#clock.monotonic();
    try {
      const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
      const ofIPv4 = all.filter(({ family }) => family === "IPv4");
      this.#known = [...new Set(ofIPv4.map(({ address }) => address))];
    } catch {
      // Clients decide how many descriptors are in use.
    }
    return this.#known;
  }

  /**
   * Whether a client's address is one of this computer, now or a second ago: then the client is a program here. One that asks for its own
   * address is, although addresses of devices without a carrier are not listed.
   *
   * @param asked the address that the client has sent to
   */
  has(client: string, asked: string | undefined): boolean {
    if (client.startsWith("127.") || client === asked) return true;
    const isOld = this.#clock.monotonic() - this.#listedAtMs >= maxAgeMs;
    return (isOld ? this.list() : this.#known).includes(client);
  }
}
