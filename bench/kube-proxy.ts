// Compares kip's Services with kube-proxy's in nftables mode: the same objects of one API server, in one run.
//   node bench/kube-proxy.ts [--services 100,1000] [--changes 30] [--cells 500] [--minutes 10] [--kube-proxy PATH] [--no-streams]
// A change moves the only endpoint of a Service to another address. Time runs from the request that writes the EndpointSlice
// until a connection to the ClusterIP reaches the new address. In each namespace a program connects all the time, and both
// proxies see the same write.
// Each side has `--minutes` for its whole table, and for a change. A side that takes longer is reported as "not within 10 min"
// and ended, and the other is measured alone.
// Prints a line of JSON per figure. Needs root, nft, socat, unshare and nsenter; without --kube-proxy, Go.
import { fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { inParallel, runCommand, silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { StoredService } from "@kip/k8s-types/network";
import { figure, residentMiB } from "./measure.ts";
import {
  addEndpoint,
  measureStreams,
  streamEndpoint,
  watchAnswers,
} from "./network/measure-streams.ts";
import { Namespace, untilDeath } from "./network/namespace.ts";
import type { Usage } from "./network/usage.ts";

const { values } = parseArgs({
  options: {
    services: { type: "string", default: "100,1000" },
    changes: { type: "string", default: "30" },
    cells: { type: "string", default: "500" },
    minutes: { type: "string", default: "10" },
    "kube-proxy": { type: "string" },
    streams: { type: "boolean", default: true },
  },
  allowNegative: true,
});
/** kube-proxy applies changes at most once a second. */
const changeIntervalMs = 1200;
const endpointsPerService = 10;
const limitMs = Number(values.minutes) * 60_000;
/** How often the endpoint has moved so far. */
let moves = 0;
const folder = mkdtempSync(path.join(tmpdir(), "kip-bench-"));

try {
  await using plane = await sharedControlPlane({ directory: folder });
  const client = createApiClient(await loadKubeConfig({ path: plane.kubeconfigPath }), {
    userAgent: "bench",
    logger: silentLogger,
    clock: systemClock,
  });
  await client.create("/api/v1/nodes", { metadata: { name: "bench" } });
  await client.replace("/api/v1/nodes/bench/status", {
    metadata: { name: "bench" },
    status: { addresses: [{ type: "InternalIP", address: "127.0.0.1" }] },
  });
  const program = values["kube-proxy"] ?? (await buildKubeProxy());
  const clusterIp = await makeStreamService(client);
  let made = 0;
  for (const services of values.services.split(",").map(Number)) {
    const missing = Array.from({ length: services - made }, (_, i) => made + i);
    await inParallel(missing, 16, async (i) => await makeService(client, i));
    made = services;
    await measure({ services, client, plane, program, clusterIp });
  }
  client.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

interface Run {
  readonly services: number;
  readonly client: ApiClient;
  readonly plane: SharedControlPlane;
  /** ClusterIP of the Service for streams. */
  readonly clusterIp: string;
  /** Path of kube-proxy. */
  readonly program: string;
}

type Print = (name: string, list: readonly number[], unit: string) => void;

/** A namespace with the whole table in force, and the processes that maintain it. */
interface Side {
  readonly namespace: Namespace;
  /** The processes, each with the name under which its CPU time is reported. */
  readonly processes: readonly (readonly [string, ChildProcess, "own" | "children"])[];
  /** Times until a change was in force, milliseconds. */
  readonly times: number[];
}

async function measure(run: Run): Promise<void> {
  const { services } = run;
  await using ours = await Namespace.open();
  await using theirs = await Namespace.open();
  await using _ourPeer = await addEndpoint(ours);
  await using _theirPeer = await addEndpoint(theirs);
  const print: Print = (name, list, unit) => figure(name, list, unit, { services });
  const sides = new Map<string, Side>();
  const kubeProxy = await fillKubeProxy(theirs, run, print);
  if (kubeProxy) sides.set("kube-proxy", kubeProxy);
  const kip = await fillKip(ours, run, print);
  if (kip) sides.set("kip", kip);
  await measureChanges(run, await watchedSides(sides, run), print);
  const streams = [
    ["direct", ours, undefined],
    ["kip", ours, run.clusterIp],
    ["kube-proxy", theirs, run.clusterIp],
  ] as const;
  for (const [name, namespace, clusterIp] of values.streams ? streams : []) {
    if (clusterIp !== undefined && !sides.has(name)) continue;
    const { throughput, latency } = await measureStreams(namespace, clusterIp);
    print(`${name}: throughput of a ClusterIP to direct`, [throughput], "ratio");
    print(`${name}: time of a connection of a ClusterIP to direct`, [latency], "ratio");
  }
  for (const { processes } of sides.values())
    for (const child of new Set(processes.map(([, each]) => each))) await end(child);
}

/** Measures how long a side takes to apply its whole table. @returns false if it does not finish within the limit */
async function isFilled(
  name: string,
  services: number,
  hasAll: (signal: AbortSignal) => Promise<boolean>,
): Promise<boolean> {
  const started = performance.now();
  const isThere = await hasAll(AbortSignal.timeout(limitMs));
  const title = `${name}: from its start to the whole table`;
  if (isThere) figure(title, [performance.now() - started], "ms", { services });
  else
    console.log(
      JSON.stringify({ figure: title, value: `not within ${values.minutes} min`, services }),
    );
  return isThere;
}

/** The sides on which connections to the ClusterIP are answered within the limit. */
async function watchedSides(
  sides: ReadonlyMap<string, Side>,
  { services, clusterIp }: Run,
): Promise<ReadonlyMap<string, Side>> {
  const watched = await Promise.all(
    [...sides].map(async (side) => {
      const isWatched = await watchAnswers(side[1].namespace, clusterIp, limitMs);
      const title = `${side[0]}: until the ClusterIP answers`;
      const value = `not within ${values.minutes} min`;
      if (!isWatched) console.log(JSON.stringify({ figure: title, value, services }));
      return isWatched ? side : undefined;
    }),
  );
  return new Map(watched.filter((side) => side !== undefined));
}

async function fillKubeProxy(
  namespace: Namespace,
  run: Run,
  print: Print,
): Promise<Side | undefined> {
  const { services, client } = run;
  const path = paths.services("default", `s${services - 1}`);
  const last = (await client.get<StoredService>(path)).spec?.clusterIP ?? "";
  const map = ["map", "ip", "kube-proxy", "service-ips"];
  const proxy = await startKubeProxy(namespace, run);
  const { pid = 0 } = proxy;
  // Its first transaction contains all Services.
  const isThere = await isFilled("kube-proxy", services, async (signal) =>
    namespace.has(`${last} .`, map, signal),
  );
  print("kube-proxy: resident memory", [residentMiB(pid) * 1.048576], "MB");
  print("kube-proxy: CPU for the table", [cpuMsOf(pid)], "ms");
  if (!isThere) {
    // Including the nft that it waits for.
    process.kill(-pid, "SIGKILL");
    return undefined;
  }
  print("kube-proxy: CPU of nft for the table", [cpuMsOf(pid, "children")], "ms");
  const processes = [
    ["kube-proxy", proxy, "own"],
    ["kube-proxy's nft", proxy, "children"],
  ] as const;
  return { namespace, processes, times: [] };
}

async function fillKip(
  namespace: Namespace,
  { services, plane }: Run,
  print: Print,
): Promise<Side | undefined> {
  const cell = startPart("cell.ts", namespace.prefix);
  const connection = await nextMessage<object>(cell);
  const before = await usageOf(cell);
  const kip = startPart("kip.ts", [plane.kubeconfigPath, JSON.stringify(connection), values.cells]);
  const isThere = await isFilled("kip", services, async (signal) =>
    namespace.has(addressOf(services - 1, 9), ["ruleset"], signal),
  );
  if (!isThere) {
    for (const child of [kip, cell]) await end(child);
    return undefined;
  }
  const alone = await usageOf(kip);
  kip.send("simulate");
  await nextMessage(kip);
  await untilQuiet(kip);
  const table = { kip: await usageOf(kip), cell: await usageOf(cell) };
  print("agent: memory of the table", [table.cell.heapMB - before.heapMB], "MB");
  print("agent: resident memory of the table", [table.cell.rssMB - before.rssMB], "MB");
  print("kip: heap with one cell", [alone.heapMB], "MB");
  print(`kip: heap with ${values.cells} more`, [table.kip.heapMB], "MB");
  print("kip: resident memory with one cell", [alone.rssMB], "MB");
  print(`kip: resident memory with ${values.cells} more`, [table.kip.rssMB], "MB");
  print("kip: CPU until one cell has the table", [alone.cpuMs], "ms");
  print(`kip: CPU for the table of ${values.cells} more`, [table.kip.cpuMs - alone.cpuMs], "ms");
  print("agent: CPU for the table", [table.cell.cpuMs - before.cpuMs], "ms");
  print("agent: CPU of nft for the table", [cpuMsOf(cell.pid ?? 0, "children")], "ms");
  const processes = [
    ["kip", kip, "own"],
    ["agent", cell, "own"],
    ["agent's nft", cell, "children"],
  ] as const;
  return { namespace, processes, times: [] };
}

async function measureChanges(
  { client }: Run,
  sides: ReadonlyMap<string, Side>,
  print: Print,
): Promise<void> {
  const processes = [...sides.values()].flatMap((side) => side.processes);
  const before = processes.map(([, { pid = 0 }, which]) => cpuMsOf(pid, which));
  const rounds = Number(values.changes);
  for (let round = 1; round <= rounds; round++) {
    const { address: first, other } = streamEndpoint;
    const address = ++moves % 2 === 0 ? first : other;
    const seen = [...sides.values()].map(
      async ({ namespace, times }) => [times, await namespace.seen(address, limitMs)] as const,
    );
    const began = performance.now();
    await client.replace(`${paths.endpointSlices("default")}/stream-1`, streamSlice(address));
    for (const [times, at = Number.NaN] of await Promise.all(seen)) times.push(at - began);
    await sleep(changeIntervalMs); // so that kube-proxy's own limit does not delay it
  }
  for (const [name, { times }] of sides) print(`${name}: change in force`, times, "ms");
  for (const [index, [name, { pid = 0 }, which]] of processes.entries()) {
    const used = cpuMsOf(pid, which) - (before[index] ?? 0);
    print(`${name}: CPU of a change`, [used / rounds], "ms");
  }
}

/** Builds kube-proxy from the Kubernetes modules that are pinned for the control plane. */
async function buildKubeProxy(): Promise<string> {
  const file = path.join(process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip", "bench/kube-proxy");
  const modules = path.join(import.meta.dirname, "../tools/kubernetes");
  const build = ["build", "-trimpath", "-mod=readonly", "-ldflags=-s -w", `-o=${file}`];
  const words = ["-C", modules, ...build, "k8s.io/kubernetes/cmd/kube-proxy"];
  await runCommand("env", ["CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "go", ...words]);
  return file;
}

/** Starts kube-proxy in its own namespace, with access to the API server over a socket. */
async function startKubeProxy(
  namespace: Namespace,
  { plane, program }: Run,
): Promise<ChildProcess> {
  const port = Number(new URL(plane.server).port);
  const socketPath = path.join(folder, `api-${Date.now()}.sock`);
  const relay = createServer((socket) => {
    const server = connect(port, "127.0.0.1");
    socket.on("error", () => server.destroy()).pipe(server);
    server.on("error", () => socket.destroy()).pipe(socket);
  }).listen(socketPath);
  relay.unref();
  await once(relay, "listening");
  const [first = "", ...prefix] = namespace.prefix;
  const listen = `TCP-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr,nodelay`;
  spawn(
    first,
    [...prefix, "setpriv", ...untilDeath, "socat", listen, `UNIX-CONNECT:${socketPath}`],
    { stdio: "ignore" },
  ).unref();
  const flags = [
    "--proxy-mode=nftables",
    `--kubeconfig=${plane.kubeconfigPath}`,
    "--hostname-override=bench",
    "--detect-local-mode=ClusterCIDR",
    "--cluster-cidr=10.0.0.0/8",
    "--conntrack-max-per-core=0",
    "--conntrack-tcp-timeout-established=0s",
    "--conntrack-tcp-timeout-close-wait=0s",
  ];
  return spawn(first, [...prefix, "setpriv", ...untilDeath, program, ...flags], {
    stdio: ["ignore", "ignore", process.env["BENCH_DEBUG"] ? "inherit" : "ignore"],
    // A process group of its own, which includes each nft that it runs.
    detached: true,
  });
}

function startPart(file: string, args: readonly string[]): ChildProcess {
  return fork(path.join(import.meta.dirname, "network", file), args, {
    execArgv: ["--expose-gc"],
    env: { ...process.env, TMPDIR: folder },
  });
}

async function nextMessage<T>(child: ChildProcess): Promise<T> {
  const [message] = await once(child, "message");
  return message as T; // our own programs
}

async function usageOf(child: ChildProcess): Promise<Usage> {
  const answer = nextMessage<Usage>(child);
  child.send("usage");
  return await answer;
}

/** Waits until all cells have their tables. */
async function untilQuiet({ pid = 0 }: ChildProcess): Promise<void> {
  for (let before = -1000, now = cpuMsOf(pid); now - before > 50; before = now, now = cpuMsOf(pid))
    await sleep(1000); // it sends without a pause until every cell has everything
}

/** CPU time so far of a process, or of the programs that it has run, with a resolution of 10 ms. */
function cpuMsOf(pid: number, which: "own" | "children" = "own"): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  const [user, system] = which === "own" ? fields.slice(11, 13) : fields.slice(13, 15);
  return (Number(user) + Number(system)) * 10;
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function makeService(client: ApiClient, i: number): Promise<void> {
  await client.create(paths.services("default"), {
    metadata: { name: `s${i}` },
    spec: { ports: [{ port: 80, targetPort: 8080 }] },
  });
  const addresses = Array.from({ length: endpointsPerService }, (_, j) => addressOf(i, j));
  await client.create(paths.endpointSlices("default"), slice(`s${i}`, 8080, addresses));
}

/** @returns its ClusterIP */
async function makeStreamService(client: ApiClient): Promise<string> {
  const metadata = { name: "stream" };
  const spec = { ports: [{ port: 80 }] };
  const service = await client.create<StoredService>(paths.services("default"), { metadata, spec });
  await client.create(paths.endpointSlices("default"), streamSlice(streamEndpoint.address));
  return service.spec?.clusterIP ?? "";
}

function streamSlice(address: string): object {
  return slice("stream", streamEndpoint.port, [address]);
}

function slice(service: string, port: number, addresses: readonly string[]): object {
  return {
    metadata: { name: `${service}-1`, labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    ports: [{ name: "", port, protocol: "TCP" }],
    endpoints: addresses.map((one) => ({ addresses: [one] })),
  };
}

function addressOf(i: number, endpoint: number): string {
  const number = i * endpointsPerService + endpoint;
  return `10.${128 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
}
