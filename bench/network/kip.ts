// Kip's side of the network: watches a cluster and sends it to one agent and, once asked to "simulate" them, to cells that read and acknowledge.
// Arguments: kubeconfig, connection of the agent as JSON, number of such cells.
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
  ...(JSON.parse(connection) as Connection), // as cell.ts has sent it
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

/** A cell in memory, on the wire's own format: says that it has nothing, and confirms each change. */
function simulateCell(number: number): void {
  const [kipSide, cellSide] = duplexPair();
  void sendNetwork(kipSide, ({ sums }) => subscribe(`cell-${number}`, sums), signal);
  cellSide.write(`${JSON.stringify({ sums: Array<number>(bucketCount).fill(0) })}\n`);
  acknowledge(cellSide);
}

/**
 * The next change comes when the last one is confirmed, so its last line, `["end",n]`, is the last of all. Takes chunks as they come: an
 * iterator of the stream would copy those that wait into one.
 */
function acknowledge(cell: Duplex): void {
  let applied = 0;
  let last = "";
  cell.on("data", (chunk: Buffer) => {
    last = (last + chunk.subarray(-40).toString()).slice(-40);
    if (!/\n?\["end",\d+\]\n$/.test(last)) return;
    // As a socket, it lets others have their turn.
    setImmediate(() => cell.write(`${JSON.stringify({ applied: ++applied })}\n`));
  });
}
