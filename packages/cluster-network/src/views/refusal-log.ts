import type { Clock, Logger } from "@kip/base";
import type { EventRecorder, EventReference } from "@kip/k8s-client";
import { maxPoliciesCost } from "../policies/policy-budget.ts";
import { maxServicesCost } from "../services/service-cost.ts";
import { maxRulesBytes } from "./rules-budget.ts";

/** Minimum time between reports for one namespace, milliseconds. Its users decide how often its objects change. */
const periodMs = 10 * 60_000;

/** Options of {@link RefusalLog}. */
export interface RefusalLogOptions {
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  readonly events?: Pick<EventRecorder, "record"> | undefined;
}

/** What is reported. */
export interface RefusalTexts {
  /** For the log. */
  readonly what: string;
  /** For the event of an object, before how many there are and the remedy. */
  readonly effect: string;
  readonly remedy: string;
  readonly most?: object;
}

/** Services of a namespace take too much together. */
export const ofServices: RefusalTexts = {
  what: "Left out Services of a namespace: together they are too large for cells",
  effect:
    "Cells have no rules for this Service: the Services of its namespace are too large together, and older ones come first",
  remedy:
    "Have fewer addresses, ports or endpoints in the namespace, or move Services to another one",
  most: maxServicesCost,
};

/** NetworkPolicies of a namespace choose too many addresses together. */
export const ofPolicies: RefusalTexts = {
  what: "Left out rules of NetworkPolicies of a namespace: together they choose too many addresses",
  effect:
    "Cells let pass nothing that only this NetworkPolicy allows: those of its namespace choose too many addresses together, and older ones come first",
  remedy: "Have fewer selectors, or ones that choose fewer pods",
  most: maxPoliciesCost,
};

/** NetworkPolicies of one pod are over the limits of a pod. */
export const ofOnePod: RefusalTexts = {
  what: "Closed a direction of pods: the policies that restrict it are too large together",
  effect:
    "Nothing passes in a direction that this policy restricts: the policies of a pod are over the limits of a cell together",
  remedy: "Have fewer rules, peers, ports and labels of selectors in policies of the same pods",
};

/** Policies of administrators close pods of a namespace. */
export const ofTiers: RefusalTexts = {
  what: "Closed directions of pods: what administrators' policies choose for them is too large",
  effect:
    "Nothing passes in directions of pods that policies of administrators restrict: those choose more than a cell takes, this one the most of it",
  remedy: "Have fewer rules, or selectors that choose fewer pods",
};

/** Rules of the pods of a namespace take too much together. */
export const ofRules: RefusalTexts = {
  what: "Closed pods: the rules of the pods of their namespace are too large together",
  effect:
    "Nothing passes in directions that this policy restricts for some of its pods: too many different sets of large policies select pods of the namespace",
  remedy: "Have fewer rules, or the same policies for more of the pods",
  most: { bytes: maxRulesBytes },
};

/**
 * Reports namespaces whose objects exceed a limit, in the log and with an event for one of the objects. Reports when this begins, and at most
 * once in ten minutes while more objects lose their rules.
 */
export class RefusalLog {
  readonly #options: RefusalLogOptions;
  readonly #texts: RefusalTexts;
  /** By namespace. */
  readonly #reportedAtMs = new Map<string, number>();

  constructor(options: RefusalLogOptions, texts: RefusalTexts) {
    this.#options = options;
    this.#texts = texts;
  }

  /**
   * @param refusal `count` is the number of objects without rules, if known
   * @param about the object that gets the event
   */
  report(
    refusal: {
      readonly namespace: string;
      readonly example: string;
      readonly count?: number | undefined;
    },
    about: EventReference | undefined,
  ): void {
    const { clock, logger, events } = this.#options;
    const { what, effect, remedy, most } = this.#texts;
    const { namespace, count } = refusal;
    const now = clock.monotonic();
    for (const [name, at] of this.#reportedAtMs)
      if (now - at >= periodMs) this.#reportedAtMs.delete(name);
    if (this.#reportedAtMs.has(namespace)) return;
    this.#reportedAtMs.set(namespace, now);
    logger?.warn(what, { ...refusal, ...(most && { most }), remedy });
    if (!about) return;
    const others = count === undefined ? "" : ` ${count} of them are left out.`;
    events?.record(about, {
      type: "Warning",
      reason: "NetworkTooLarge",
      message: `${effect}.${others} ${remedy}`,
    });
  }
}
