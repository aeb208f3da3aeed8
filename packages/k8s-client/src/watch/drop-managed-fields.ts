import type { KubeObject } from "../client/api-client.ts";

/**
 * Removes `metadata.managedFields`, which is unused here and is the largest part of most objects. Changes the object in place,
 * so call it only for a newly decoded one.
 */
export function dropManagedFields({ metadata }: KubeObject): void {
  const fields: { managedFields?: unknown } | undefined = metadata;
  if (fields?.managedFields !== undefined) delete fields.managedFields;
}
