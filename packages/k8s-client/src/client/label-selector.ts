import type { LabelSelector } from "@kip/k8s-types/network";

/** Labels of an object. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Whether labels match a selector; an empty one matches everything. An operator that the API does not have matches nothing:
 * a policy that is not understood must not open anything.
 *
 * Users write selectors with thousands of terms, and pods with thousands of labels, and each is compared with each: it takes as long as
 * there are labels, or terms if those are fewer. What is found of a selector and of labels is kept as long as these are: neither may change.
 */
export function matchesLabels(selector: LabelSelector, labels: Labels): boolean {
  let wanted = prepared.get(selector);
  if (!wanted) {
    wanted = readTerms(selector);
    prepared.set(selector, wanted);
  }
  const { required, forbidden, isImpossible } = wanted;
  return !isImpossible && hasRequired(required, labels) && hasNoForbidden(forbidden, labels);
}

/** Values of a label by its key; undefined stands for all. */
type Terms = ReadonlyMap<string, ReadonlySet<string> | undefined>;

interface Wanted {
  readonly required: Terms;
  readonly forbidden: Terms;
  /** Labels cannot match it. */
  readonly isImpossible: boolean;
}

const prepared = new WeakMap<LabelSelector, Wanted>();

/** With more terms than these it is worth to know how many labels there are. */
const fewTerms = 64;

/** The keys of labels: to list thousands of them takes longer than to look for a few. */
const listed = new WeakMap<Labels, readonly string[]>();

/** Ends with the first term that labels do not meet, so it looks for one more than there are labels at most. */
function hasRequired(required: Terms, labels: Labels): boolean {
  for (const [key, values] of required) {
    const value = labelOf(labels, key);
    if (value === undefined || values?.has(value) === false) return false;
  }
  return true;
}

function hasNoForbidden(forbidden: Terms, labels: Labels): boolean {
  const all = forbidden.size > fewTerms ? keysOf(labels) : undefined;
  const keys = all && all.length < forbidden.size ? all : forbidden.keys();
  for (const key of keys) {
    const value = labelOf(labels, key);
    if (value === undefined || !forbidden.has(key)) continue;
    if (forbidden.get(key)?.has(value) !== false) return false;
  }
  return true;
}

function keysOf(labels: Labels): readonly string[] {
  const keys = listed.get(labels) ?? Object.keys(labels);
  listed.set(labels, keys);
  return keys;
}

function readTerms({ matchLabels = {}, matchExpressions = [] }: LabelSelector): Wanted {
  const required = new Map<string, ReadonlySet<string> | undefined>();
  const forbidden = new Map<string, Set<string> | undefined>();
  const wanted = { required, forbidden, isImpossible: false };
  const require = (key: string, values?: readonly string[]): void => {
    const before = required.get(key);
    const both = before ? values?.filter((value) => before.has(value)) : values;
    required.set(key, both ? new Set(both) : before);
  };
  const forbid = (key: string, values?: readonly string[]): void => {
    const before = forbidden.has(key) ? forbidden.get(key) : new Set<string>();
    for (const value of values ?? []) before?.add(value);
    forbidden.set(key, values && before);
  };
  for (const [key, value] of Object.entries(matchLabels)) require(key, [value]);
  for (const { key, operator, values = [] } of matchExpressions)
    switch (operator) {
      case "In":
        require(key, values);
        break;
      case "NotIn":
        forbid(key, values);
        break;
      case "Exists":
        require(key);
        break;
      case "DoesNotExist":
        forbid(key);
        break;
      default:
        wanted.isImpossible = true;
    }
  return wanted;
}

/** Each object has `constructor` and the like, which are keys of labels, too. */
function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
