import type { Pod } from "@kip/k8s-types";

/** The meaning of a pod's field on a cell. Each field has one of these. */
export type FieldDecision =
  /** As on any node. */
  | {
      readonly kind: "works";
      /** The test that checks it: `<file>: <name of the test>`. */
      readonly test: string;
      /** The type of the field or its elements, whose own fields have decisions. */
      readonly of?: string | undefined;
      /** Maximum number of elements. A pod with more is refused. */
      readonly most?: number | undefined;
    }
  /** Differs from other nodes, including everything below it. */
  | { readonly kind: "differs"; readonly what: string }
  /** The pod, or its container, is not run. */
  | {
      readonly kind: "refused";
      /** Why, and what to do instead. */
      readonly words: string;
      /** `status.reason` of the failed pod, or the reason with which it waits. */
      readonly reason: string;
      /** For {@link unsupported}: whether a value of the field is refused. */
      readonly isRefused?: (value: unknown, pod: Pod) => boolean;
    }
  /** Read by something other than nodes. */
  | { readonly kind: "elsewhere"; readonly reader: string };

/** The decisions of one type, by field. */
export type FieldDecisions = Readonly<Record<string, FieldDecision>>;

/** The kubelet's reason for a pod that needs something that its node lacks. */
export const unsupported = "PodFeatureUnsupported";

export function works(test: string, of?: string, most?: number): FieldDecision {
  return { kind: "works", test, of, most };
}

/** The message for a list with more elements than cells support, and what to do instead. */
export function tooMany(most: number): string {
  return `cells have at most ${most}; spread them over several pods`;
}

export function differs(what: string): FieldDecision {
  return { kind: "differs", what };
}

/** The node's admission refuses these values. @default all values */
export function refused(
  words: string,
  isRefused: (value: unknown, pod: Pod) => boolean = () => true,
): FieldDecision {
  return { kind: "refused", words, reason: unsupported, isRefused };
}

/** Refused in another way, with its own reason. */
export function refusedAs(reason: string, words: string): FieldDecision {
  return { kind: "refused", reason, words };
}

export function elsewhere(reader: string): FieldDecision {
  return { kind: "elsewhere", reader };
}
