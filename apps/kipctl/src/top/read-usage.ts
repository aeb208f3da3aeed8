import { errorText, pause, systemClock } from "@kip/base";
import { paths, type ApiClient } from "@kip/k8s-client";
import { listKipNodes } from "../cluster/kip-nodes.ts";
import { KipctlError } from "../errors.ts";
import { decodeSummary, type PodUsage } from "./stats-summary.ts";

/**
 * Time between two requests, milliseconds. A node measures CPU use from one request to the next, so the first response has no
 * value. Kip keeps a cell's measurement for five seconds. No event reports a new one.
 */
const betweenLooksMs = 5500;

/**
 * Resource use of the pods on kip's nodes, from the `/stats/summary` of each node through the API server. This needs permission
 * to `get` `nodes/proxy`. Notes nodes that do not respond.
 *
 * @throws {KipctlError} `NO_KIP_NODE` if there are no nodes, or none responds
 */
export async function readUsage(
  client: ApiClient,
  options: {
    /** Undefined: all namespaces. */
    readonly namespace: string | undefined;
    readonly signal: AbortSignal;
    readonly note: (line: string) => void;
  },
): Promise<readonly PodUsage[]> {
  const { namespace, signal, note } = options;
  const nodes = await listKipNodes(client, signal);
  if (nodes.length === 0)
    throw new KipctlError("NO_KIP_NODE", "Cannot read usage: the cluster has no node of kip", {
      remedy: "kubectl get nodes -l kip.elotl.co/cloud shows them once kip runs",
    });
  const failures: unknown[] = [];
  const reads = nodes.map(async (node) => {
    try {
      return await readNode(client, node, signal);
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
      note(`Node ${node} does not say what its pods use: ${errorText(error)}`);
      return [];
    }
  });
  const usage = (await Promise.all(reads)).flat();
  if (failures.length === nodes.length)
    throw new KipctlError("NO_KIP_NODE", "Cannot read usage: no node of kip answers", {
      cause: failures[0],
      remedy: "It needs kip to run, and the right to get nodes/proxy",
    });
  return usage.filter(({ podRef }) => namespace === undefined || podRef.namespace === namespace);
}

async function readNode(
  client: ApiClient,
  node: string,
  signal: AbortSignal,
): Promise<readonly PodUsage[]> {
  const path = paths.nodes(node, "proxy/stats/summary");
  const first = decodeSummary(await client.get<unknown>(path, { signal }));
  if (first.every(({ cpuNanoCores }) => cpuNanoCores !== undefined)) return first;
  await pause(betweenLooksMs, systemClock, signal);
  return decodeSummary(await client.get<unknown>(path, { signal }));
}
