import type { KubeObject } from "../client/api-client.ts";

/**
 * Removes `metadata.managedFields`, the largest part of most objects, which nothing here reads. Works in place: call it only
 * with an object that was just decoded.
 */
export function dropManagedFields({ metadata }: KubeObject): void {
  const fields: { managedFields?: unknown } | undefined = metadata;
  if (fields?.managedFields !== undefined) delete fields.managedFields;
}
