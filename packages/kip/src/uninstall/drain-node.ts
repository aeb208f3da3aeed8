import { backoffDelay, pause, silentLogger, untilAborted } from "@kip/base";
import { createInformer, K8sError, namespaced, paths, type KubeObject } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { isNodeRun, type HeartbeatOptions } from "../cleanup/node-heartbeat.ts";
import { isInUse, namesText, podsOfNode, staysOnNode } from "../cleanup/pods-of-node.ts";
import { ProviderError } from "../errors.ts";
import { isStandby, nodeLabel, type Cell, type StandbyCell } from "../state/cell.ts";
import { evictPod } from "../store/evict-pod.ts";

/** Options of {@link drainNode}. */
export interface DrainOptions extends HeartbeatOptions {
  /** Called with one sentence at the start, when fewer pods are left, and when a disruption budget forbids an eviction. */
  readonly onProgress: (message: string) => void;
}

const disruptionBudgets = namespaced("/apis/policy/v1", "poddisruptionbudgets");
/** Pauses after a refused eviction, if no pod and no budget changes in the meantime. The API server may have been busy. */
const backoff = { initialMs: 1000, maxMs: 10_000 };

/**
 * Moves the pods of a node that a kip runs, like `kubectl drain`. No new pods are bound to it, and its pods are evicted, within
 * their disruption budgets and with their grace periods. Resolves when they and their Cells are gone. Pods of DaemonSets stay.
 * May be repeated. `kubectl uncordon` reverts it.
 *
 * @throws {ProviderError} `NODE_IN_USE` if kip stops in the meantime, because nothing would end the pods
 * @throws the signal's reason; {K8sError} if the API does not respond
 */
export async function drainNode(options: DrainOptions): Promise<void> {
  const { client, nodeName, signal, onProgress } = options;
  onProgress(`Moving the pods of node "${nodeName}"`);
  await client.patch(paths.nodes(nodeName), { spec: { unschedulable: true } }, "merge");
  const done = new AbortController();
  const ending = AbortSignal.any([signal, done.signal]);
  const watched = { ...options, signal: ending };
  try {
    await Promise.race([evictAll(watched), refuseWithoutKip(watched)]);
  } finally {
    done.abort();
  }
}

async function evictAll(options: DrainOptions): Promise<void> {
  const { client, nodeName, clock, signal, onProgress } = options;
  let changed = new AbortController();
  const watch = { client, clock, logger: silentLogger, signal, onEvent: () => changed.abort() };
  const pods = createInformer<Pod>({ ...watch, path: paths.pods(), query: podsOfNode(nodeName) });
  createInformer<KubeObject>({ ...watch, path: disruptionBudgets() });
  const query = { labelSelector: `${nodeLabel}=${nodeName}` };
  const cells = createInformer<Cell | StandbyCell>({ ...watch, path: paths.cells(), query });
  // A pod may have ended while its instance is still running.
  const cellsLeft = (): number =>
    cells.list().filter((each) => {
      if (isStandby(each)) return false;
      const pod = pods.byUid(each.spec.podRef.uid);
      return !pod || !staysOnNode(pod);
    }).length;
  await untilAborted(Promise.all([pods.synced, cells.synced]), signal);
  const reported = new Set<string>();
  const report = (message: string): void => {
    if (!reported.has(message)) onProgress(message);
    reported.add(message);
  };
  for (let refusals = 0; ;) {
    changed = new AbortController();
    const left = pods.list().filter(isInUse);
    const ending = cellsLeft();
    if (left.length + ending === 0) return;
    report(
      left.length === 0
        ? `Waiting for ${count(ending, "Cell")} to end`
        : `Waiting for ${count(left.length, "pod")}: ${namesText(left)}`,
    );
    const refusal = await evictEach(options, left, report);
    const delayMs = refusal ? backoffDelay(refusals++, backoff, refusal) : Number.POSITIVE_INFINITY;
    await pause(delayMs, clock, AbortSignal.any([signal, changed.signal]));
    signal.throwIfAborted();
  }
}

/** Evicts pods that are not being deleted yet. Returns one of the refusals. */
async function evictEach(
  { client }: DrainOptions,
  pods: readonly Pod[],
  report: (message: string) => void,
): Promise<K8sError | undefined> {
  let refusal: K8sError | undefined;
  for (const { metadata } of pods) {
    const { namespace, name, uid, deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) continue;
    try {
      await evictPod(client, { namespace, name, uid });
    } catch (error) {
      // Another pod has that name.
      if (K8sError.is(error, "K8S_CONFLICT")) continue;
      if (!K8sError.is(error, "K8S_TOO_MANY_REQUESTS")) throw error;
      refusal = error;
      report(`Pod ${namespace}/${name} stays for now: ${error.message}`);
    }
  }
  return refusal;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/** Returns when the signal aborts. */
async function refuseWithoutKip(options: DrainOptions): Promise<void> {
  const { nodeName, signal } = options;
  const isRun = async (): Promise<boolean> =>
    await isNodeRun(options).catch((error: unknown) => {
      if (signal.aborted) return true;
      throw error;
    });
  while (await isRun()) if (signal.aborted) return;
  throw new ProviderError(
    "NODE_IN_USE",
    `Cannot move the pods of node "${nodeName}": kip stopped meanwhile, and nothing ends them`,
    { remedy: "Start kip again, or give --end-pods while it is stopped to end them" },
  );
}
