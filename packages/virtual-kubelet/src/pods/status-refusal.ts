import { K8sError } from "@kip/k8s-client";

/** Whether the API server will never accept this status, because it is invalid or too large. */
export function isRefusal(error: unknown): boolean {
  return K8sError.is(error) && (error.code === "K8S_INVALID" || error.httpStatus === 413);
}

/** Whether the API server refused the write because another pod has the name by now. */
export function isOtherPod(error: unknown): boolean {
  return causeFields(error).includes("metadata.uid");
}

/** The fields of the pod's status that the API server rejects, and `annotations` if it rejects those. */
export function refusedFields(error: unknown): string[] {
  const fields = causeFields(error).flatMap((path) => {
    const name = /^(?:status\.(\w+)|metadata\.(annotations)\b)/.exec(path);
    return name?.[1] ?? name?.[2] ?? [];
  });
  return [...new Set(fields)];
}

/** Paths of rejected fields, such as `status.podIP`. */
function causeFields(error: unknown): string[] {
  const causes = K8sError.is(error) ? error.status?.details?.causes : undefined;
  return (causes ?? []).flatMap(({ field }) => field ?? []);
}
