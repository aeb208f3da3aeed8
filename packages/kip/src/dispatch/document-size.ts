import { maxBodyBytes, type DesiredPod, type DesiredSeccompProfile } from "@kip/agent-api";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { ProviderError } from "../errors.ts";
import { desiredPod } from "./desired-pod.ts";

/**
 * The shortest that there are: those of the cell may be longer, but make no pod too large here that is not. There must be some: no
 * `subPathExpr` with a variable of an address can be expanded without.
 */
const shortestAddresses = ["::"];
/** What is not known before there is a cell; it adds little to a document. */
const noContext = {
  nodeIp: "",
  addresses: { podIPs: shortestAddresses, hostIPs: shortestAddresses },
  dns: { clusterDns: [], clusterDomain: "", hostNameservers: [], hostSearchDomains: [] },
  registries: [],
  generation: 0,
};

/** What a document most likely has at most besides a pod and its content: settings, addresses and log-ins; bytes. */
const otherBytes = 8 * 1024;

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

/** `{"name":"","value":""}`. */
const variableBytes = 22;
/** `{"path":"","data":"","mode":0}`. */
const fileBytes = 30;

/**
 * Checks the least that the volumes and variables of a pod take in its document, before there is one: to make one of all that a
 * pod may name would hold up all others for seconds, and take more memory than kip has. Returns what they take, bytes.
 *
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkContentSize(
  { files, env }: Pick<ResolvedPod, "files" | "env">,
  options: SizeOptions,
): number {
  let bytes = 0;
  for (const { path, data } of [...files.values()].flat())
    bytes += fileBytes + path.length + Math.ceil(data.length / 3) * 4;
  checkSize(bytes, options);
  for (const variables of env.values()) {
    for (const { name, value } of variables) bytes += variableBytes + name.length + value.length;
    checkSize(bytes, options);
  }
  return bytes;
}

/** What the document of a pod most likely has at most, bytes, before there is one. @throws as {@link checkContentSize} */
export function expectedBytes(resolved: ResolvedPod, options: SizeOptions): number {
  return checkContentSize(resolved, options) + jsonBytes(resolved.pod) + otherBytes;
}

/**
 * Checks that the agent will take the document, and returns its length, bytes. Part by part: containers share parts such as groups in
 * memory, but not as JSON.
 *
 * @throws {ProviderError} code `POD_TOO_LARGE`
 */
export function checkDocumentSize(document: DesiredPod, options: SizeOptions): number {
  const lists = partLists.flatMap((key) => (document[key] ? [document[key]] : []));
  const empty = Object.fromEntries(partLists.map((key) => [key, document[key] && []]));
  let bytes = jsonBytes({ ...document, ...empty });
  for (const parts of lists) {
    bytes += Math.max(0, parts.length - 1); // commas
    for (const part of parts) {
      bytes += jsonBytes(part);
      checkSize(bytes, options);
    }
  }
  checkSize(bytes, options);
  return bytes;
}

const partLists = ["initContainers", "containers", "ephemeralContainers", "volumes"] as const;

function jsonBytes(value: object): number {
  return Buffer.byteLength(JSON.stringify(value));
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
