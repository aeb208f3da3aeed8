import { maxBodyBytes, type DesiredPod } from "@kip/agent-api";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { ProviderError } from "../errors.ts";
import { desiredPod } from "./desired-pod.ts";

/** What is not known before there is a cell; it adds little to a document. */
const noContext = {
  nodeIp: "",
  addresses: { podIPs: [], hostIPs: [] },
  dns: { clusterDns: [], clusterDomain: "", hostNameservers: [], hostSearchDomains: [] },
  registries: [],
  generation: 0,
};

/**
 * Checks the size of a pod that has no cell yet, so that it gets no machine which could not take it.
 *
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkPodSize(resolved: ResolvedPod): void {
  checkDocumentSize(desiredPod(resolved, noContext), { isOnCell: false });
}

/**
 * Checks that the agent will take the document.
 *
 * @param options.isOnCell whether the cell has an earlier one, with which it goes on
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkDocumentSize(
  document: DesiredPod,
  { isOnCell }: { readonly isOnCell: boolean },
): void {
  const bytes = Buffer.byteLength(JSON.stringify(document));
  if (bytes <= maxBodyBytes) return;
  const remedy = "Put less into ConfigMaps and Secrets of the pod";
  const until = "until then the pod goes on with what it has, and its tokens are not renewed";
  throw new ProviderError(
    "POD_TOO_LARGE",
    `Cannot give the pod to a cell: with the content of its volumes and variables it has ${bytes} bytes as JSON, more than ${maxBodyBytes}`,
    { remedy: isOnCell ? `${remedy}; ${until}` : remedy },
  );
}
