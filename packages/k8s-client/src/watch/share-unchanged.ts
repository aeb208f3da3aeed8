/**
 * Puts the parts of an object's state before into its state after, where they are equal: the values of
 * its fields, and those of its metadata. Both are JSON as it was parsed.
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

/** Node's comparison makes lists of all keys; this is done for each event of a watch. */
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
