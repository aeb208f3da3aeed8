// The kip of bench/scale.ts, in its own process: a real provider and a real virtual kubelet on a simulated cloud. Each
// simulated machine has an address in 127.0.0.0/8, where a simulated agent responds over real connections. Arguments:
// kubeconfig, name of the node.
import { fork, type ChildProcess } from "node:child_process";
import { mkdtempDisposableSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { tmpdir } from "node:os";
import path from "node:path";
import { identityInUserData } from "@kip/agent-api/testing";
import { createLogger, systemClock } from "@kip/base";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { createApiClient, loadKubeConfig } from "@kip/k8s-client";
import { decodeProviderConfig, startKip } from "@kip/kip";
import { startNode } from "@kip/virtual-kubelet";
import type { MachineMessage } from "./agents.ts";

/** A request of the parent. */
export type Question = { readonly take: number } | "usage";

/** Resources that this process has used so far, and its current state. */
export interface Usage {
  readonly rssMiB: number;
  readonly maxRssMiB: number;
  readonly cpuMs: number;
  /** The longest time that the event loop was blocked since the last request, milliseconds. */
  readonly blockedMs: number;
  readonly instances: number;
}

const [kubeconfig = "", nodeName = ""] = process.argv.slice(2);
const logger = createLogger({ level: "warn" });
const shared = { clock: systemClock, logger };
/** Processes of agents. Each has this many at most, as an agent takes two open files. */
const agentsPerProcess = 4096;
const agents = new Map<number, ChildProcess>();

function tell(message: MachineMessage): void {
  const [, , high = 0, low = 0] = message.host.split(".").map(Number);
  const number = Math.floor((256 * high + low) / agentsPerProcess);
  let child = agents.get(number);
  if (child === undefined) {
    child = fork(path.join(import.meta.dirname, "agents.ts"), { execArgv: [] });
    child.once("exit", failWithoutAgents);
    agents.set(number, child);
  }
  child.send(message);
}

/** The figures would be those of lost cells. */
function failWithoutAgents(): void {
  process.exit(1);
}

const cloud = createSimulatedCloud({
  callMs: { minMs: 20, maxMs: 80 },
  startMs: { minMs: 500, maxMs: 1500 },
  stopMs: 500,
  addresses: (slot) => ({
    managementIp: `127.1.${slot >> 8}.${slot & 255}`,
    podIp: `10.${128 + (slot >> 16)}.${(slot >> 8) & 255}.${slot & 255}`,
  }),
  boot: ({ instance, userData }) => {
    const host = instance.managementIp ?? "";
    tell({ host, identity: identityInUserData(userData) });
    return () => tell({ host });
  },
});
const driver = cloud.open({ owner: nodeName });
const client = createApiClient(await loadKubeConfig({ path: kubeconfig }), {
  ...shared,
  userAgent: "kip/scale",
});
const config = decodeProviderConfig({
  apiVersion: "v1",
  cloud: { local: {} },
  cells: { bootImageSpec: { name: "cell" }, defaultInstanceType: "sim.1" },
  kubelet: { capacity: { cpu: "100k", memory: "400Ti", pods: "50k" } },
});
const logs = mkdtempDisposableSync(path.join(tmpdir(), "kip-scale-"));
process.once("exit", () => logs.remove());
process.once("SIGTERM", () => process.exit());
process.once("disconnect", () => process.exit()); // the bench has ended
const kip = await startKip({
  ...shared,
  client,
  driver,
  config,
  controllerID: nodeName,
  nodeName,
  nodeIps: ["127.0.0.1"],
  clusterDns: ["10.96.0.10"], // without it, each pod gets an event about that
  logDir: logs.path,
});
await startNode({ ...shared, client, nodeName, provider: kip.provider });
const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();
process.send?.("ready");

process.on("message", (question: Question) => void respond(question));

async function respond(question: Question): Promise<void> {
  if (question !== "usage") await interrupt(question.take);
  const { user, system } = process.cpuUsage();
  const usage: Usage = {
    rssMiB: process.memoryUsage.rss() / 2 ** 20,
    maxRssMiB: process.resourceUsage().maxRSS / 2 ** 10,
    cpuMs: (user + system) / 1000,
    blockedMs: delay.max / 1e6,
    instances: (await driver.list()).length,
  };
  delay.reset();
  process.send?.(usage);
}

/** Makes the cloud reclaim this number of machines at once. */
async function interrupt(count: number): Promise<void> {
  const running = (await driver.list()).filter(({ state }) => state === "running");
  await Promise.all(running.slice(0, count).map(async ({ id }) => await cloud.faults.kill(id)));
}
