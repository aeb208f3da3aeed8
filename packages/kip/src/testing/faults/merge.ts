/** RFC 7386. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged: Record<string, unknown> = { ...(isObject(target) ? target : {}) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else if (value !== undefined) merged[key] = mergePatch(merged[key], value);
  }
  return merged;
}

/** The parts of a strategic merge patch that a pod's status needs: conditions are merged by type, and lists are replaced. */
export function strategicPatch(target: unknown, patch: unknown): unknown {
  const merged = mergePatch(target, patch);
  if (!isObject(merged) || !isObject(merged["status"])) return merged;
  const before = statusOf(target);
  const given = statusOf(patch);
  const status = { ...merged["status"] };
  for (const [key, value] of Object.entries(given))
    if (Array.isArray(value)) status[key] = value.filter((entry) => !isMarker(entry));
  const conditions = given["conditions"];
  if (Array.isArray(conditions)) status["conditions"] = byType(before["conditions"], conditions);
  return { ...merged, status };
}

interface Condition {
  readonly type: string;
}

function byType(known: unknown, changes: readonly unknown[]): readonly unknown[] {
  const all = new Map<string, unknown>();
  for (const each of Array.isArray(known) ? (known as Condition[]) : []) all.set(each.type, each);
  for (const each of changes as readonly (Condition & { readonly $patch?: string })[]) {
    if (each.$patch === "delete") all.delete(each.type);
    else all.set(each.type, mergePatch(all.get(each.type), each));
  }
  return [...all.values()];
}

function isMarker(entry: unknown): boolean {
  return isObject(entry) && "$patch" in entry;
}

function statusOf(of: unknown): Readonly<Record<string, unknown>> {
  const status = isObject(of) ? of["status"] : undefined;
  return isObject(status) ? status : {};
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
