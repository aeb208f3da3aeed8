import { K8sError } from "../errors.ts";
import type { ObjectMeta } from "@kip/k8s-types";

/**
 * Checks that an object has name, UID and version. Every object of an API server has them, and types such as `Pod` rely on it.
 * Objects with an empty UID as key would be confused.
 *
 * @throws {K8sError} `K8S_UNAVAILABLE` if one is missing, as for any other response that is not in Kubernetes' format
 */
export function requireIdentity(object: { readonly metadata?: ObjectMeta }, path: string): void {
  const { name, uid, resourceVersion } = object.metadata ?? {};
  if (isText(name) && isText(uid) && isText(resourceVersion)) return;
  throw new K8sError(
    "K8S_UNAVAILABLE",
    `Cannot read "${path}": an object has no name, UID or resourceVersion`,
    { retryable: true, remedy: "Check that the address is that of a Kubernetes API server" },
  );
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
