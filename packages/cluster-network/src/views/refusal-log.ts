import type { Clock, Logger } from "@kip/base";
import { referenceTo, type EventRecorder } from "@kip/k8s-client";
import type { StoredService } from "@kip/k8s-types/network";
import { mostOfNamespaceCost } from "../services/service-cost.ts";
import type { Refusal } from "../services/service-index.ts";

/** How often one namespace is reported at most, milliseconds: its users decide how often its Services change. */
const periodMs = 10 * 60_000;

/** Options of {@link RefusalLog}. */
export interface RefusalLogOptions {
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  readonly events?: Pick<EventRecorder, "record"> | undefined;
}

/**
 * Reports namespaces whose Services take more than they may, in the log and by an event of one of the Services: when that begins, and
 * at most once in ten minutes while more of them lose their rules.
 */
export class RefusalLog {
  readonly #options: RefusalLogOptions;
  /** By namespace. */
  readonly #reportedAtMs = new Map<string, number>();

  constructor(options: RefusalLogOptions) {
    this.#options = options;
  }

  /** @param service the one that is given as an example */
  report({ namespace, count, example }: Refusal, service: StoredService | undefined): void {
    const { clock, logger, events } = this.#options;
    const now = clock.monotonic();
    for (const [name, at] of this.#reportedAtMs)
      if (now - at >= periodMs) this.#reportedAtMs.delete(name);
    if (this.#reportedAtMs.has(namespace)) return;
    this.#reportedAtMs.set(namespace, now);
    const remedy =
      "Have fewer addresses, ports or endpoints in the namespace, or move Services to another one";
    logger?.warn("Left out Services of a namespace: together they are too large for cells", {
      namespace,
      count,
      example,
      most: mostOfNamespaceCost,
      remedy,
    });
    if (!service) return;
    events?.record(referenceTo(service, { apiVersion: "v1", kind: "Service" }), {
      type: "Warning",
      reason: "NetworkTooLarge",
      message: `Cells have no rules for this Service: the Services of its namespace are too large together, and older ones come first. ${count} of them are left out. ${remedy}`,
    });
  }
}
