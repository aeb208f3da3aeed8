// Kip's side of the network: watches a cluster and sends it to one agent. When asked to "simulate" cells, it also sends it to
// cells that read and acknowledge. Arguments: kubeconfig, connection of the agent as JSON, number of simulated cells.
import { duplexPair, type Duplex } from "node:stream";
import { AgentClient } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { NetworkViews, watchClusterNetwork } from "@kip/cluster-network";
import { createApiClient, loadKubeConfig } from "@kip/k8s-client";
import { bucketCount } from "@kip/network-view";
import { sendNetwork } from "../../packages/agent-api/src/network-stream.ts";
import { desiredPod } from "../../packages/cell-agent/test/desired-pod.ts";
import { answerUsage } from "./usage.ts";

type Connection = Omit<Parameters<typeof AgentClient.connect>[0], "address" | "logger">;

const [kubeconfig = "", connection = "", cells = ""] = process.argv.slice(2);
const { signal } = new AbortController();
const options = { clock: systemClock, signal };
const client = createApiClient(await loadKubeConfig({ path: kubeconfig }), {
  userAgent: "bench",
  logger: silentLogger,
  clock: systemClock,
});
const views = new NetworkViews({ node: { name: "bench" }, ...options });
await watchClusterNetwork({ client, views, logger: silentLogger, ...options }).synced(signal);
const agent = await AgentClient.connect({
  ...(JSON.parse(connection) as Connection), // in the format of cell.ts
  address: "127.0.0.1",
  connectTimeoutMs: 60_000,
  logger: silentLogger,
});
void agent.sendNetwork(({ sums }) => subscribe("real", sums), signal);
await agent.putPod(
  desiredPod({ podIp: "10.1.0.2", network: { nodeAddresses: [], serviceRanges: [] } }),
);
process.on("message", (message) => {
  if (message === "simulate") for (let i = 0; i < Number(cells); i++) simulateCell(i);
});
answerUsage();

function subscribe(podUid: string, sums: readonly number[]) {
  return views.subscribe({ podUid, namespace: "default", sums });
}

/** A simulated cell with the real format: it reports that it has nothing, and confirms each change. */
function simulateCell(number: number): void {
  const [kipSide, cellSide] = duplexPair();
  void sendNetwork(kipSide, ({ sums }) => subscribe(`cell-${number}`, sums), signal);
  cellSide.write(`${JSON.stringify({ sums: Array<number>(bucketCount).fill(0) })}\n`);
  acknowledge(cellSide);
}

/**
 * Confirms changes. The next change is sent after the last one was confirmed, so a change's last line, `["end",n]`, is also the
 * last line of the stream so far. Handles chunks as they arrive, because an iterator of the stream would copy waiting chunks
 * into one.
 */
function acknowledge(cell: Duplex): void {
  let applied = 0;
  let last = "";
  cell.on("data", (chunk: Buffer) => {
    last = (last + chunk.subarray(-40).toString()).slice(-40);
    if (!/\n?\["end",\d+\]\n$/.test(last)) return;
    // Lets other cells run first, like a socket does.
    setImmediate(() => cell.write(`${JSON.stringify({ applied: ++applied })}\n`));
  });
}
