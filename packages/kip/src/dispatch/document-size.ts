import { maxBodyBytes, type DesiredPod } from "@kip/agent-api";
import { VirtualKubeletError, type ResolvedPod } from "@kip/virtual-kubelet";
import { ProviderError } from "../errors.ts";
import { desiredPod, type DesiredPodContext } from "./desired-pod.ts";

/**
 * The shortest possible addresses. A cell's addresses may be longer, but with these no pod is refused wrongly. There must be
 * some, because a `subPathExpr` with an address variable cannot be expanded without them.
 */
const shortestAddresses = ["::"];
/** Settings that are not known before there is a cell. They add little to a document. */
const noContext = {
  nodeIp: "",
  addresses: { podIPs: shortestAddresses, hostIPs: shortestAddresses },
  dns: { clusterDns: [], clusterDomain: "", hostNameservers: [], hostSearchDomains: [] },
  registries: [],
  generation: 0,
};

/** Expected maximum of what a document contains besides a pod and its content: settings, addresses and logins, bytes. */
const otherBytes = 8 * 1024;

/** Options of the checks. */
interface SizeOptions {
  /** Whether the cell already has an earlier document, which it keeps. */
  readonly isOnCell: boolean;
}

/**
 * Checks the size of a pod that has no cell yet, so that it does not get a machine that could not accept it.
 *
 * @param known the profiles that its containers name, and the containers that have ended on earlier cells
 * @throws {ProviderError} code `POD_TOO_LARGE`
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if a variable of a `subPathExpr` has no value, or if the pod, which ran on
 * another machine, lacks what it needs to start on a new one
 */
export function checkPodSize(
  resolved: ResolvedPod,
  known: Pick<DesiredPodContext, "seccompProfiles" | "ended">,
): void {
  checkContentSize(resolved, { isOnCell: false });
  const document = desiredPod(resolved, { ...noContext, ...known });
  checkStart(document, resolved);
  checkDocumentSize(document, { isOnCell: false });
}

/** Checks that containers can be created, except for those that are held back until their variables are there, if others can. */
function checkStart(
  { initContainers, containers, ephemeralContainers = [] }: DesiredPod,
  { missingEnv, missingFiles = new Set() }: ResolvedPod,
): void {
  const begin = initContainers.length > 0 ? initContainers.slice(0, 1) : containers;
  const [heldBack] = begin.every(({ configProblem }) => configProblem !== undefined) ? begin : [];
  const [volume] = missingFiles;
  const problem =
    volume === undefined
      ? heldBack?.configProblem
      : `what the files of volume "${volume}" come from does not exist`;
  if (problem !== undefined)
    throw new VirtualKubeletError("VK_UNRESOLVED", problem, { retryable: true });
  for (const { name, configProblem } of [...initContainers, ...containers, ...ephemeralContainers])
    if (configProblem !== undefined && missingEnv?.has(name) !== true)
      throw new VirtualKubeletError("VK_UNRESOLVED", configProblem, { retryable: true });
}

/** `{"name":"","value":""}`. */
const variableBytes = 22;
/** `{"path":"","data":"","mode":0}`. */
const fileBytes = 30;

/**
 * Checks the minimum size of a pod's volumes and variables in its document, before it is made. Making a document with
 * everything that a pod may name would block all others for seconds, and take more memory than kip has. Returns that size in
 * bytes.
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

/** The expected maximum size of a pod's document, bytes, before it is made. @throws like {@link checkContentSize} */
export function expectedBytes(resolved: ResolvedPod, options: SizeOptions): number {
  return checkContentSize(resolved, options) + jsonBytes(resolved.pod) + otherBytes;
}

/**
 * Checks that the agent will accept the document, and returns its length in bytes. Measures the document part by part, because
 * containers share parts such as groups in memory, but not in JSON.
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
