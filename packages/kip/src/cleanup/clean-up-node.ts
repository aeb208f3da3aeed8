import { errorText, pause, withTimeout, type Clock } from "@kip/base";
import { ignoreNotFound, paths } from "@kip/k8s-client";
import { CloudError } from "@kip/cloud";
import { CellStore } from "../store/cell-store.ts";
import { findLeftOvers, type Installation, type OwnedInstance } from "./left-overs.ts";
import { refuseWithPods } from "./pods-of-node.ts";

/** Options of {@link cleanUpNode}. */
export interface CleanUpOptions extends Installation {
  readonly nodeName: string;
  /** Whether to end pods that the node still has. */
  readonly endsPods: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called with one sentence at the start of each step. */
  readonly onProgress: (message: string) => void;
}

/**
 * Pause before asking the cloud again, milliseconds. No event reports an instance that was requested and is not listed yet. EC2
 * lists a new one within seconds.
 */
const settleMs = 10_000;
/** Maximum number of times to ask the cloud. Instances of pending requests appear in the first few. */
const maxChecks = 6;
/** How long to wait for instances in total, milliseconds. Most end within a minute. On EC2, some took hours. */
const endLimitMs = 300_000;
/** Drivers keep a dedicated host until it is two minutes old. */
const maxHostChecks = 14;

/**
 * Removes a virtual node for good: first the Node object, so that no pod is bound to it, then the instances with and without a
 * Cell, then its Cells and the dedicated hosts without instances. Cells and instances of other nodes and clusters, and all
 * volumes, are kept. Each step may be repeated: the next call finishes what was begun. Call it in the node's own turn, because
 * no kip may run the node at the same time.
 *
 * @returns whether all instances of the node have ended
 * @throws {ProviderError} `NODE_IN_USE` if the node has pods that have not ended, unless they should be ended
 * @throws {CloudError | K8sError} if the cloud or the API does not respond
 */
export async function cleanUpNode(given: CleanUpOptions): Promise<boolean> {
  const options = { ...given, onProgress: once(given.onProgress) };
  const { client, nodeName, endsPods, clock, signal, onProgress } = options;
  if (!endsPods) await refuseWithPods(options);
  onProgress(`Deleting node "${nodeName}"`);
  await ignoreNotFound(client.delete(paths.nodes(nodeName)));
  let hostsAreGone = false;
  const endsBy = clock.monotonic() + endLimitMs;
  for (let look = 0; look < (hostsAreGone ? maxChecks : maxHostChecks); look++) {
    if (look > 0) await pause(settleMs, clock, signal);
    signal.throwIfAborted();
    const instances = await instancesOf(options);
    await Promise.all(instances.map(async (each) => await end(each, endsBy, options)));
    signal.throwIfAborted();
    await removeCells(options);
    hostsAreGone = await releaseHosts(options);
    if (instances.length === 0 && hostsAreGone && look > 0) return true;
  }
  return (await instancesOf(options)).length === 0;
}

/** Reports each sentence once, because each check repeats the failed operations. */
function once(onProgress: CleanUpOptions["onProgress"]): CleanUpOptions["onProgress"] {
  const reported = new Set<string>();
  return (message) => {
    if (!reported.has(message)) onProgress(message);
    reported.add(message);
  };
}

/**
 * Releases dedicated hosts without instances.
 *
 * @returns whether every remaining host has a running instance; clouds show an ended instance on its host for a while
 */
async function releaseHosts({ driver, onProgress }: CleanUpOptions): Promise<boolean> {
  const { hosts } = driver;
  if (!hosts) return true;
  try {
    for (const { host, refusal } of await hosts.releaseEmpty())
      onProgress(
        refusal === undefined
          ? `Gave back dedicated host ${host.id}`
          : `Could not give back dedicated host ${host.id}: ${refusal}`,
      );
  } catch (error) {
    onProgress(`Could not give back dedicated hosts: ${errorText(error)}`);
    if (CloudError.is(error, "CLOUD_AUTH")) return true;
  }
  const living = new Set((await driver.list()).map(({ id }) => id));
  return (await hosts.list()).every(({ instanceIds }) => instanceIds.some((id) => living.has(id)));
}

/** Instances of the node's Cells, and the installation's instances in this cluster without a Cell. */
async function instancesOf(options: CleanUpOptions): Promise<readonly OwnedInstance[]> {
  const { instances } = await findLeftOvers(options);
  return instances.filter(({ cell, isOfThisCluster }) =>
    cell === undefined ? isOfThisCluster : cell.spec.nodeName === options.nodeName,
  );
}

/**
 * Ends an instance. Never throws: an instance that cannot be ended is tried again at the next check, and does not delay the
 * others.
 *
 * @param endsBy until when to wait for its end, monotonic milliseconds
 */
async function end(
  { id, name }: OwnedInstance,
  endsBy: number,
  { driver, clock, signal, onProgress }: CleanUpOptions,
): Promise<void> {
  onProgress(`Ending instance ${id} of "${name}"`);
  try {
    await driver.terminate(id);
    await withTimeout(async (ending) => await driver.waitForTerminated(id, ending), {
      limitMs: Math.max(0, endsBy - clock.monotonic()),
      clock,
      signal,
      error: () => new CloudError("CLOUD_UNAVAILABLE", "The cloud still ends it"),
    });
  } catch (error) {
    onProgress(`Could not end instance ${id}: ${errorText(error)}`);
  }
}

/** Removes the node's Cells whose instances are gone. */
async function removeCells(options: CleanUpOptions): Promise<void> {
  const store = new CellStore(options.client);
  const { instances, cells } = await findLeftOvers(options);
  const running = new Set(instances.map(({ token }) => token));
  const ended = cells.filter(
    ({ metadata, spec }) => spec.nodeName === options.nodeName && !running.has(metadata.uid),
  );
  for (const cell of ended) await store.remove(cell);
}
