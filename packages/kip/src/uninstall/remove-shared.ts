import type { Clock } from "@kip/base";
import { ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";
import { heartbeatOf, signOfLife, type Heartbeat } from "../cleanup/sign-of-life.ts";
import { isHeldTurn, turnLease, turnNamespace } from "../replicas/run-in-turns.ts";
import { cellCrd } from "../store/cell-crd.ts";
import { CellStore } from "../store/cell-store.ts";
import { untilCrdIsGone } from "../store/crd-end.ts";

/** Options of {@link removeShared}. */
export interface RemoveSharedOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  /** Namespace of kip's Secrets. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onProgress: (message: string) => void;
}

/** Label of kip's virtual nodes. */
const cloudLabel = "kip.elotl.co/cloud";
/** Duration of a turn's Lease that does not specify one, seconds. */
const turnSeconds = 15;

/**
 * Removes the objects that the kips of a cluster share: the Secret of the certificate authority, and finally the Cell resource.
 * Both are kept while another kip uses them.
 *
 * @returns what still uses them; undefined if they are removed
 */
export async function removeShared(options: RemoveSharedOptions): Promise<string | undefined> {
  const { client, namespace, onProgress } = options;
  const user = await findUser(options);
  if (user !== undefined) return user;
  await ignoreNotFound(client.delete(paths.secrets(namespace, "kip-cell-ca")));
  onProgress(`Deleting the resource ${cellCrd.metadata.name}`);
  await deleteResource(options);
  return undefined;
}

/** Finds something else that needs the Cell resource. */
async function findUser(options: RemoveSharedOptions): Promise<string | undefined> {
  const { client, nodeName } = options;
  const query = { labelSelector: cloudLabel };
  const nodes = await client.list<Node>(paths.nodes(), { query });
  const node = nodes.items.find(({ metadata }) => metadata?.name !== nodeName);
  if (node) return `node "${node.metadata?.name}"`;
  const lease = await findTurn(options);
  if (lease !== undefined) return `the kip that holds Lease ${turnNamespace}/${lease}`;
  const [cell] = (await ignoreNotFound(new CellStore(client).list())) ?? [];
  return cell && `Cell ${cell.metadata.name} of node "${cell.spec.nodeName}"`;
}

/**
 * Name of another node's Lease that a kip renews in its turn. If a Lease was not renewed for twice its duration, its kip is
 * gone. No other kip is waiting for that turn, because it would have taken over within one duration.
 */
async function findTurn(options: RemoveSharedOptions): Promise<string | undefined> {
  const { client, nodeName, onProgress } = options;
  const path = paths.leases(turnNamespace);
  const isOther = (lease: Heartbeat): boolean =>
    isHeldTurn(lease) && lease.metadata.name !== turnLease(nodeName);
  const held = (await client.list<Heartbeat>(path)).items.filter(isOther);
  if (held.length === 0) return undefined;
  const lasting = held.map(({ spec }) => spec?.leaseDurationSeconds ?? turnSeconds);
  const seconds = 2 * Math.max(...lasting);
  onProgress(`Waiting up to ${seconds} s to see whether a kip runs another node`);
  const known = new Map(held.map((lease) => [lease.metadata.uid, heartbeatOf(lease)]));
  const isSign = (lease: Heartbeat): boolean =>
    isOther(lease) && known.get(lease.metadata.uid) !== heartbeatOf(lease);
  const found = await signOfLife({ ...options, limitMs: seconds * 1000 }, [{ path, isSign }]);
  return found?.metadata.name;
}

/** Resolves when the resource is gone, so that a later program can install it again. */
async function deleteResource(options: RemoveSharedOptions): Promise<void> {
  const path = paths.customResourceDefinitions(cellCrd.metadata.name);
  await untilCrdIsGone({ ...options, whenWatched: () => options.client.delete(path) });
}
