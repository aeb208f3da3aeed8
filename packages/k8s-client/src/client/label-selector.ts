import type { LabelSelector } from "@kip/k8s-types/network";

/** Labels of an object. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Whether labels match a selector. An empty selector matches everything. An unknown operator matches nothing: a policy that Kip
 * does not understand must not allow anything.
 *
 * Users can write selectors with thousands of terms and pods with thousands of labels, and each selector is compared with each
 * pod. So a comparison takes time proportional to the number of labels or of terms, whichever is smaller. Results of analysing
 * a selector and labels are cached for their lifetime, so neither may change.
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

/** Accepted values of each label key. Undefined stands for all values. */
type Terms = ReadonlyMap<string, ReadonlySet<string> | undefined>;

interface Wanted {
  readonly required: Terms;
  readonly forbidden: Terms;
  /** Whether no labels can match. */
  readonly isImpossible: boolean;
}

const prepared = new WeakMap<LabelSelector, Wanted>();

/** With more terms than this, it is worth counting the labels. */
const fewTerms = 64;

/** Keys of labels. Listing thousands of keys takes longer than looking up a few. */
const listed = new WeakMap<Labels, readonly string[]>();

/** Stops at the first term that the labels do not satisfy, so it looks up at most one key more than there are labels. */
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

/** Label keys may have names such as `constructor`, which every object inherits. */
function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
