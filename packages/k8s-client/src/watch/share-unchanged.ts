/**
 * Replaces the parts of a new state that equal the old state's with the old ones: field values, and values of the metadata.
 * Both states are parsed JSON.
 */
export function shareUnchanged(before: object, after: object): void {
  const old = before as Fields;
  const fresh = after as Record<string, unknown>; // its own fields
  for (const [field, value] of Object.entries(fresh)) {
    const known = old[field];
    if (!isObject(value) || !isObject(known)) continue;
    if (isEqual(known, value)) fresh[field] = known;
    else if (field === "metadata") shareUnchanged(known, value);
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** Node's own comparison lists all keys, which is too slow for each event of a watch. */
function isEqual(a: unknown, b: unknown): boolean {
  if (!isObject(a) || !isObject(b)) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  let count = 0;
  for (const key in a) {
    if (!Object.hasOwn(b, key) || !isEqual((a as Fields)[key], (b as Fields)[key])) return false;
    count++;
  }
  for (const _ in b) count--;
  return count === 0;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
