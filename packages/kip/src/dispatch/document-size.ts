import { maxBodyBytes, type DesiredPod, type DesiredSeccompProfile } from "@kip/agent-api";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { ProviderError } from "../errors.ts";
import { desiredPod } from "./desired-pod.ts";

/** The longest that there are. There must be some: no `subPathExpr` with a variable of an address can be expanded without. */
const longestAddresses = ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"];
/** What is not known before there is a cell; it adds little to a document. */
const noContext = {
  nodeIp: "",
  addresses: { podIPs: longestAddresses, hostIPs: longestAddresses },
  dns: { clusterDns: [], clusterDomain: "", hostNameservers: [], hostSearchDomains: [] },
  registries: [],
  generation: 0,
};

/** Options of the checks. */
interface SizeOptions {
  /** Whether the cell has an earlier document, with which it goes on. */
  readonly isOnCell: boolean;
}

/**
 * Checks the size of a pod that has no cell yet, so that it gets no machine which could not take it.
 *
 * @param seccompProfiles those that its containers name
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkPodSize(
  resolved: ResolvedPod,
  seccompProfiles: readonly DesiredSeccompProfile[],
): void {
  checkContentSize(resolved, { isOnCell: false });
  checkDocumentSize(desiredPod(resolved, { ...noContext, seccompProfiles }), { isOnCell: false });
}

/**
 * Checks the least that the volumes of a pod take in its document, before there is one: to make one of all that a pod may name
 * would hold up all others for a second.
 *
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkContentSize(
  { files }: Pick<ResolvedPod, "files">,
  options: SizeOptions,
): void {
  let bytes = 0;
  for (const { data } of [...files.values()].flat()) bytes += Math.ceil(data.length / 3) * 4;
  checkSize(bytes, options);
}

/**
 * Checks that the agent will take the document.
 *
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkDocumentSize(document: DesiredPod, options: SizeOptions): void {
  checkSize(Buffer.byteLength(JSON.stringify(document)), options);
}

function checkSize(bytes: number, { isOnCell }: SizeOptions): void {
  if (bytes <= maxBodyBytes) return;
  const remedy = "Put less into ConfigMaps and Secrets of the pod";
  const until = "until then the pod goes on with what it has, and its tokens are not renewed";
  throw new ProviderError(
    "POD_TOO_LARGE",
    `Cannot give the pod to a cell: with the content of its volumes and variables it has at least ${bytes} bytes as JSON, more than ${maxBodyBytes}`,
    { remedy: isOnCell ? `${remedy}; ${until}` : remedy },
  );
}
