import { K8sError } from "../errors.ts";
import type { ObjectMeta } from "@kip/k8s-types";

/**
 * Checks what every object of an API server has, and what types such as `Pod` promise: name, UID and version. An empty UID as
 * a key would mix up objects.
 *
 * @throws {K8sError} `K8S_UNAVAILABLE` if one of them is missing, as for any other answer that is not of Kubernetes' form
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
