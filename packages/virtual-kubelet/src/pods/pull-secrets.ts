import { isCodedError, isRetryable } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { nameOf, unresolved, type Notify, type ReferenceReader } from "../references/reference.ts";

/**
 * The registry credentials in a pod's `imagePullSecrets`, as `.dockerconfigjson` documents. Converts the old `.dockercfg` form.
 * Like the kubelet, skips missing or unreadable Secrets and records one event for them.
 *
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` while the API server does not answer
 */
export async function pullSecrets(
  pod: Pod,
  references: ReferenceReader,
  notify: Notify,
): Promise<readonly unknown[]> {
  const documents: unknown[] = [];
  const missing: string[] = [];
  // Without duplicates, because a pod may name one Secret some ten thousand times.
  const names = new Set((pod.spec.imagePullSecrets ?? []).map(({ name = "" }) => name));
  for (const name of names) {
    const document = await readDocument(references, name);
    if (document) documents.push(document);
    else missing.push(name);
  }
  if (missing.length > 0) {
    notify({
      type: "Warning",
      reason: "FailedToRetrieveImagePullSecret",
      message: `Unable to retrieve some image pull secrets (${missing.join(", ")}); attempting to pull the image may not succeed.`,
    });
  }
  return documents;
}

async function readDocument(references: ReferenceReader, name: string): Promise<unknown> {
  const reference = { kind: "Secret", name } as const;
  try {
    const content = await references.read(reference);
    return content && dockerConfig(content.text);
  } catch (error) {
    if (isRetryable(error))
      throw unresolved(`${nameOf(reference)} could not be read`, undefined, error);
    if (!isCodedError(error)) throw error;
    return undefined;
  }
}

function dockerConfig(text: ReadonlyMap<string, string>): unknown {
  try {
    const current = text.get(".dockerconfigjson");
    if (current !== undefined) return JSON.parse(current);
    const old = text.get(".dockercfg");
    return old === undefined ? undefined : { auths: JSON.parse(old) as unknown };
  } catch {
    return undefined;
  }
}
