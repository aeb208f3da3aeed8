// What Services cost: kip with many cells, and the rules of one cell in a network namespace of this script.
//   node --expose-gc bench/cluster-network.ts [--cells 5000] [--changes 50]
// Prints a line of JSON per figure. Needs root, nft and unshare.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { NetworkViews, type ViewSubscription } from "@kip/cluster-network";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount, ChangeReader } from "@kip/network-view";
import { NetworkRules } from "@kip/service-routing";

const { values } = parseArgs({
  options: {
    cells: { type: "string", default: "5000" },
    changes: { type: "string", default: "50" },
    services: { type: "string", default: "100,1000,10000" },
  },
});
const endpointsPerService = 10;
const forever = new AbortController().signal;

for (const services of values.services.split(",").map(Number)) await measure(services);
process.exit();

async function measure(services: number): Promise<void> {
  const cellCount = Number(values.cells);
  const print = (figure: string, value: number, unit: string): void =>
    console.log(JSON.stringify({ figure, services, value: Number(value.toFixed(3)), unit }));
  const views = new NetworkViews({
    node: { name: "kip" },
    clock: systemClock,
    periodMs: 1,
    signal: forever,
  });
  const heapBefore = heapBytes();
  let started = performance.now();
  for (let i = 0; i < services; i++) {
    views.setService(serviceOf(i));
    views.setSlice(sliceOf(i, 0));
  }
  for (let i = 0; i < cellCount; i++) views.setPod(podOf(i));
  const first = views.subscribe({ podUid: "p0", namespace: "default", sums: noSums() });
  print("views: first version", performance.now() - started, "ms");
  const heapServices = heapBytes();
  print("views: memory of Services and pods", (heapServices - heapBefore) / 1e6, "MB");
  started = performance.now();
  const texts = await whole(first);
  print("views: whole table for the first cell", performance.now() - started, "ms");
  print("views: whole table", texts.reduce((sum, text) => sum + text.length, 0) / 1e6, "MB");
  const sums = views.services.sums;
  const cells = Array.from({ length: cellCount - 1 }, (_, i) =>
    views.subscribe({ podUid: `p${i + 1}`, namespace: "default", sums }),
  );
  started = performance.now();
  for (const cell of cells) await cell.next(forever);
  print(
    "views: another cell that has the table",
    (performance.now() - started) / cells.length,
    "ms",
  );
  print("views: memory per cell", (heapBytes() - heapServices) / cellCount / 1000, "KB");
  await measureChanges(views, [first, ...cells], print);
  for (const cell of [first, ...cells]) cell[Symbol.dispose]();
  await measureRules(texts, services, print);
}

async function measureChanges(
  views: NetworkViews,
  cells: readonly ViewSubscription[],
  print: (figure: string, value: number, unit: string) => void,
): Promise<void> {
  const cpu = process.cpuUsage();
  const started = performance.now();
  const rounds = Number(values.changes);
  for (let round = 1; round <= rounds; round++) {
    views.setSlice(sliceOf(0, round));
    await Promise.all(cells.map(async (cell) => await cell.next(forever)));
  }
  const { user, system } = process.cpuUsage(cpu);
  print("views: change to all cells", (performance.now() - started) / rounds, "ms");
  print("views: CPU of a change to all cells", (user + system) / 1000 / rounds, "ms");
}

async function measureRules(
  texts: readonly Buffer[],
  services: number,
  print: (figure: string, value: number, unit: string) => void,
): Promise<void> {
  const holder = spawn("unshare", ["--net", "sleep", "infinity"], { stdio: "ignore" });
  await once(holder, "spawn");
  await runCommand("sh", [
    "-c",
    `until [ "$(readlink /proc/${holder.pid}/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done`,
  ]);
  const nft = async (input: string): Promise<string> => {
    const words = ["-t", String(holder.pid), "-n", "nft", "-f", "-"];
    return (await runCommand("nsenter", words, { input })).stdout;
  };
  const heapBefore = heapBytes();
  const rules = new NetworkRules({
    place: {
      podAddresses: ["10.1.0.2"],
      cable: "kip-pod",
      nodeAddresses: [],
      serviceRanges: [],
    },
    runNft: nft,
    forget: async () => {},
    logger: silentLogger,
  });
  try {
    let started = performance.now();
    const reader = new ChangeReader();
    for (const text of texts) for (const change of reader.push(text)) await rules.apply(change);
    print("rules: whole table", performance.now() - started, "ms");
    print("rules: memory", (heapBytes() - heapBefore) / 1e6, "MB");
    const times: number[] = [];
    for (let round = 1; round <= Number(values.changes); round++) {
      const key = `${namespaceOf((round * 7) % services)}/s${(round * 7) % services}`;
      started = performance.now();
      const view = viewOf((round * 7) % services, round);
      await rules.apply({ number: 0, services: new Map([[key, view]]), buckets: [], groups: [] });
      times.push(performance.now() - started);
    }
    times.sort((a, b) => a - b);
    print("rules: one change, p50", times[Math.floor(times.length / 2)] ?? 0, "ms");
    print("rules: one change, p99", times.at(-1) ?? 0, "ms");
  } finally {
    holder.kill("SIGKILL");
    await once(holder, "exit");
  }
}

async function whole(cell: ViewSubscription): Promise<readonly Buffer[]> {
  const texts: Buffer[] = [];
  const stop = new AbortController();
  for (;;) {
    const nothing = new Promise<undefined>((resolve) => setImmediate(resolve, undefined));
    const pieces = await Promise.race([cell.next(stop.signal).catch(() => undefined), nothing]);
    if (!pieces) break;
    texts.push(Buffer.concat(pieces));
  }
  stop.abort();
  return texts;
}

function noSums(): readonly number[] {
  return Array<number>(bucketCount).fill(0);
}

function address(first: number, number: number): string {
  return `10.${first + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
}

function metadata(name: string) {
  return { namespace: "default", name, uid: name, resourceVersion: "1" };
}

/** The first twenty are in the pods' namespace, the others in fifty more. */
function namespaceOf(i: number): string {
  return i < 20 ? "default" : `n${i % 50}`;
}

function serviceOf(i: number): StoredService {
  const clusterIP = address(96, i);
  return {
    metadata: { ...metadata(`s${i}`), namespace: namespaceOf(i) },
    spec: { clusterIP, clusterIPs: [clusterIP], ports: [{ port: 80 }] },
  };
}

function addressesOf(i: number, round: number): readonly string[] {
  return Array.from({ length: endpointsPerService }, (_, j) =>
    j === 0 && round > 0 ? address(250, round) : address(128, i * endpointsPerService + j),
  );
}

function sliceOf(i: number, round: number): EndpointSlice {
  const { metadata: owner } = serviceOf(i);
  return {
    metadata: {
      ...owner,
      name: `${owner.name}-1`,
      labels: { "kubernetes.io/service-name": owner.name },
    },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: addressesOf(i, round).map((one) => ({ addresses: [one] })),
  };
}

function viewOf(i: number, round: number) {
  const endpoints = addressesOf(i, round).map((one) => `${one}:8080`);
  return {
    clusterIps: [address(96, i)],
    ports: [{ name: "", protocol: "TCP" as const, port: 80, endpoints }],
  };
}

function podOf(i: number) {
  const podIP = address(200, i);
  return podWith({ metadata: metadata(`p${i}`), status: { podIP, podIPs: [{ ip: podIP }] } });
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed + process.memoryUsage().external;
}
