import type { LabelSelector } from "@kip/k8s-types/network";

/** Labels of an object. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Whether labels match a selector; an empty one matches everything. An operator that the API does not have matches nothing:
 * a policy that is not understood must not open anything.
 */
export function matches(selector: LabelSelector, labels: Labels): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labelOf(labels, key) === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labelOf(labels, key);
      switch (operator) {
        case "In":
          return value !== undefined && values.includes(value);
        case "NotIn":
          return value === undefined || !values.includes(value);
        case "Exists":
          return value !== undefined;
        case "DoesNotExist":
          return value === undefined;
        default:
          return false;
      }
    })
  );
}

/** Each object has `constructor` and the like, which are keys of labels, too. */
function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
