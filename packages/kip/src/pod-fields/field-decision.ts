import type { Pod } from "@kip/k8s-types";

/** What a field of a pod means on a cell. Each field has one of these. */
export type FieldDecision =
  /** As on any node. */
  | {
      readonly kind: "works";
      /** What shows it: `<file>: <name of the test>`. */
      readonly test: string;
      /** The type of the field, or of its elements, whose own fields have decisions. */
      readonly of?: string | undefined;
      /** The most elements that it may have: a pod with more is refused. */
      readonly most?: number | undefined;
    }
  /** Something else than on other nodes, with all that is below it. */
  | { readonly kind: "differs"; readonly what: string }
  /** The pod is not run, or its container is not. */
  | {
      readonly kind: "refused";
      /** Why, and what to do instead. */
      readonly words: string;
      /** How: `status.reason` of the failed pod, or the reason with which it waits. */
      readonly reason: string;
      /** With the reason of {@link unsupported}: whether a value of the field is refused. */
      readonly isRefused?: (value: unknown, pod: Pod) => boolean;
    }
  /** Read by others than nodes. */
  | { readonly kind: "elsewhere"; readonly reader: string };

/** The decisions of one type, by field. */
export type FieldDecisions = Readonly<Record<string, FieldDecision>>;

/** A kubelet's reason for a pod with something that its node does not have. */
export const unsupported = "PodFeatureUnsupported";

export function works(test: string, of?: string, most?: number): FieldDecision {
  return { kind: "works", test, of, most };
}

/** Why a list is refused that has more elements than cells can have; what to do instead. */
export function tooMany(most: number): string {
  return `cells have at most ${most}; spread them over several pods`;
}

export function differs(what: string): FieldDecision {
  return { kind: "differs", what };
}

/** Refused by the node's admission, for these values. @default all */
export function refused(
  words: string,
  isRefused: (value: unknown, pod: Pod) => boolean = () => true,
): FieldDecision {
  return { kind: "refused", words, reason: unsupported, isRefused };
}

/** Refused in another way, with a reason of its own. */
export function refusedAs(reason: string, words: string): FieldDecision {
  return { kind: "refused", reason, words };
}

export function elsewhere(reader: string): FieldDecision {
  return { kind: "elsewhere", reader };
}
