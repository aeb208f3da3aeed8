// What one changed policy costs kip while there are many: policies of administrators for every pod, and many pods on cells.
//   node --expose-gc bench/admin-policies.ts [--policies 1000] [--pods 5000] [--namespaces 50] [--same-labels]
// Prints a line of JSON per figure. Makes no connection and needs no privileges.
import { parseArgs } from "node:util";
import { systemClock } from "@kip/base";
import { NetworkViews, type ViewSubscription } from "@kip/cluster-network";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount } from "@kip/network-view";

const { values } = parseArgs({
  options: {
    policies: { type: "string", default: "1000" },
    pods: { type: "string", default: "5000" },
    namespaces: { type: "string", default: "50" },
    /** Otherwise each pod has its own label, like those of a StatefulSet. */
    "same-labels": { type: "boolean", default: false },
  },
});
const [policies, pods, namespaces] = [values.policies, values.pods, values.namespaces].map(Number);
if (policies === undefined || pods === undefined || namespaces === undefined) throw new Error();
const forever = new AbortController().signal;
const noSums = Array<number>(bucketCount).fill(0);
const views = new NetworkViews({ node: { name: "kip" }, clock: systemClock, signal: forever });

for (let i = 0; i < namespaces; i++) setNamespace(i, "0");
for (let i = 0; i < pods; i++) views.setPod(podOf(i, "0"));
for (let i = 0; i < policies; i++) setTier(i, 80);
const heapBefore = heapBytes();
const cells = Array.from({ length: pods }, (_, i) =>
  views.subscribe({ podUid: `p${i}`, namespace: namespaceOf(i), sums: noSums, knowsTiers: true }),
);
await Promise.all(cells.map(async (cell) => await cell.next(forever)));
print("memory of all cells", (heapBytes() - heapBefore) / 1e6, "MB");
await measure("one policy changed", () => setTier(0, 81));
await measure("one NetworkPolicy added", () => {
  const podSelector = { matchLabels: { app: "0" } };
  const metadata = { name: "own", namespace: "n0", uid: "own", resourceVersion: "1" };
  views.setPolicy({ metadata, spec: { podSelector, policyTypes: ["Ingress"] } });
});
await measure("labels of a namespace changed", () => setNamespace(0, "1"));
await measure("labels of a pod changed", () => views.setPod(podOf(0, "1")));
await measure("a pod with ports came", () => views.setPod(podOf(pods, "1")));
process.exit();

/** Makes a change, and lets the cells process all of its effects. */
async function measure(what: string, change: () => void): Promise<void> {
  const stop = new AbortController();
  let [taken, lastAtMs] = [0, performance.now()];
  const follow = async (cell: ViewSubscription): Promise<void> => {
    for (;;) {
      await cell.next(stop.signal);
      taken++;
      lastAtMs = performance.now();
    }
  };
  // Each cell first gets the rest of the table, which is empty, and then waits.
  for (const cell of cells) follow(cell).catch(() => {});
  await quiet(() => lastAtMs);
  taken = 0;
  const blocks = watchBlocks();
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  change();
  await quiet(() => Math.max(lastAtMs, startedAtMs));
  const { user, system } = process.cpuUsage(cpu);
  print(`${what}: longest block`, blocks.end(), "ms of CPU");
  print(`${what}: until the last cell has it`, Math.max(0, lastAtMs - startedAtMs), "ms");
  print(`${what}: CPU`, (user + system) / 1000, "ms");
  print(`${what}: cells with a change`, taken, "");
  stop.abort();
  await quiet(() => 0);
}

/** Measures the CPU time between turns of the event loop, which does not depend on how busy the machine is. */
function watchBlocks(): { end: () => number } {
  let [longestMs, isOver] = [0, false];
  let before = process.threadCpuUsage();
  const look = (): void => {
    const now = process.threadCpuUsage();
    longestMs = Math.max(longestMs, (now.user - before.user + now.system - before.system) / 1000);
    before = now;
    if (!isOver) setImmediate(look);
  };
  look();
  return {
    end: () => {
      isOver = true;
      return longestMs;
    },
  };
}

/** Resolves when there has been no work for half a second. */
async function quiet(lastAtMs: () => number): Promise<void> {
  do await new Promise((resolve) => setTimeout(resolve, 100));
  while (performance.now() - lastAtMs() < 500);
}

function setNamespace(i: number, generation: string): void {
  const metadata = { name: `n${i}`, namespace: "", uid: `n${i}`, resourceVersion: "1" };
  views.setNamespace({ metadata: { ...metadata, labels: { name: `n${i}`, generation } } });
}

function setTier(i: number, number: number): void {
  const peers = {
    pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: String(i) } } },
  };
  const rule = {
    action: "Deny",
    from: [peers],
    ports: [{ portNumber: { protocol: "TCP", port: number } }],
  };
  const spec = { priority: i % 1000, subject: { namespaces: {} }, ingress: [rule] };
  views.setTierPolicy("AdminNetworkPolicy", { metadata: { name: `t${i}` }, spec });
}

function namespaceOf(i: number): string {
  return `n${i % Number(namespaces)}`;
}

function podOf(i: number, generation: string) {
  const podIP = `10.${200 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
  const own = values["same-labels"] ? {} : { "statefulset.kubernetes.io/pod-name": `p${i}` };
  const ports = [{ name: "http", containerPort: 8080 }];
  return podWith({
    metadata: {
      namespace: namespaceOf(i),
      name: `p${i}`,
      uid: `p${i}`,
      resourceVersion: "1",
      labels: { app: String(i % 100), generation, ...own },
    },
    spec: { containers: [{ name: "c", image: "i", ports }] },
    status: { podIP, podIPs: [{ ip: podIP }], phase: "Running" },
  });
}

function print(figure: string, value: number, unit: string): void {
  console.log(JSON.stringify({ figure, policies, pods, value: Number(value.toFixed(1)), unit }));
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed + process.memoryUsage().external;
}
