import { isDeepStrictEqual } from "node:util";
import type { Key, Reload } from "./keys/key.ts";
import { providerKeys } from "./keys/provider-keys.ts";

/** A key that differs between two configurations. */
export interface ChangedKey {
  readonly path: string;
  /** Whether the change takes effect at once or after a restart. */
  readonly reload: Reload;
}

/** The keys in which two contents of `provider.yaml` differ, except those without effect. */
export function changedKeys(before: unknown, after: unknown): readonly ChangedKey[] {
  return differences(providerKeys, before, { after, path: "", reload: "restart" });
}

function differences(
  key: Key,
  before: unknown,
  { after, path, ...around }: { readonly after: unknown } & ChangedKey,
): readonly ChangedKey[] {
  const reload = key.reload ?? around.reload;
  if (key.replacedBy !== undefined || isDeepStrictEqual(before, after)) return [];
  if (key.kind !== "section") return [{ path, reload }];
  const [old, next] = [fields(before), fields(after)];
  return Object.entries(key.keys).flatMap(([name, each]) =>
    differences(each, old[name], {
      after: next[name],
      path: path === "" ? name : `${path}.${name}`,
      reload,
    }),
  );
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  const isSection = typeof value === "object" && value !== null && !Array.isArray(value);
  return isSection ? (value as Readonly<Record<string, unknown>>) : {}; // checked before
}
