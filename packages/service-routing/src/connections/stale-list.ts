import { endpointText } from "@kip/network-view";
import { udp, type Flow } from "./conntrack-messages.ts";
import type { FlowTarget, StaleFlows } from "./stale-flows.ts";

/** Maximum number of destinations that are kept while deletions fail, in addition to those of the last change. */
const maxDestinations = 65_536;

/** Flows that the kernel must delete, by destination. A later entry for a destination replaces the earlier one. */
export class StaleList {
  readonly #byDestination = new Map<string, StaleFlows>();

  get size(): number {
    return this.#byDestination.size;
  }

  /** All entries, one for each destination. */
  get all(): readonly StaleFlows[] {
    return [...this.#byDestination.values()];
  }

  /** Whether there is an entry for a destination. */
  hasDestination(to: FlowTarget): boolean {
    return this.#byDestination.has(keyOf(to));
  }

  /** Removes the oldest entries beyond 65,536 destinations. Otherwise the list would grow without limit while deletions fail. */
  trim(): void {
    for (const key of this.#byDestination.keys()) {
      if (this.#byDestination.size <= maxDestinations) return;
      this.#byDestination.delete(key);
    }
  }

  add(list: readonly StaleFlows[]): void {
    for (const flows of list) {
      const key = keyOf(flows);
      const before = this.#byDestination.get(key)?.isUntranslatedStale ?? false;
      const isUntranslatedStale = flows.isUntranslatedStale || before;
      this.#byDestination.delete(key);
      this.#byDestination.set(key, { ...flows, isUntranslatedStale });
    }
  }

  clear(): void {
    this.#byDestination.clear();
  }

  /** Whether the kernel must delete a flow. Takes constant time, because users decide how many entries and flows there are. */
  has({ protocol, destination, port, replySource, replyPort }: Flow): boolean {
    if (protocol !== udp) return false;
    const atNodes = this.#byDestination.get(keyOf({ port }));
    const flows =
      this.#byDestination.get(keyOf({ address: destination, port })) ??
      (atNodes?.isOfService?.(destination) === true ? undefined : atNodes);
    if (!flows || flows.serving.has(endpointText(replySource, replyPort))) return false;
    const isTranslated = replySource !== destination || replyPort !== port;
    return isTranslated || flows.isUntranslatedStale;
  }
}

function keyOf({ address = "", port }: FlowTarget): string {
  return `${address} ${port}`;
}
