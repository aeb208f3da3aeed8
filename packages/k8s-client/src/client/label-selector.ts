import type { LabelSelector, LabelSelectorRequirement } from "@kip/k8s-types/network";

/** Labels of an object. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Whether labels match a selector; an empty one matches everything. An operator that the API does not have matches nothing:
 * a policy that is not understood must not open anything.
 */
export function matchesLabels(selector: LabelSelector, labels: Labels): boolean {
  let terms = prepared.get(selector);
  if (!terms) {
    terms = termsOf(selector);
    prepared.set(selector, terms);
  }
  return terms.every((isMet) => isMet(labels));
}

type Term = (labels: Labels) => boolean;

/** Each selector is compared with each pod of the cluster. */
const prepared = new WeakMap<LabelSelector, readonly Term[]>();

function termsOf({ matchLabels = {}, matchExpressions = [] }: LabelSelector): readonly Term[] {
  return [
    ...Object.entries(matchLabels).map(
      ([key, value]): Term =>
        (labels) =>
          labelOf(labels, key) === value,
    ),
    ...matchExpressions.map(termOf),
  ];
}

function termOf({ key, operator, values = [] }: LabelSelectorRequirement): Term {
  const listed = new Set<string | undefined>(values);
  switch (operator) {
    case "In":
      return (labels) => listed.has(labelOf(labels, key));
    case "NotIn":
      return (labels) => !listed.has(labelOf(labels, key));
    case "Exists":
      return (labels) => labelOf(labels, key) !== undefined;
    case "DoesNotExist":
      return (labels) => labelOf(labels, key) === undefined;
    default:
      return () => false;
  }
}

/** Each object has `constructor` and the like, which are keys of labels, too. */
function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
