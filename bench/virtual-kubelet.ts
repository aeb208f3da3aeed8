// The virtual kubelet library against the real API server: N bound pods created at once, all Running, all
// deleted, beside a bare loop that makes the same API calls in the same run. One JSON line per figure.
//   node bench/virtual-kubelet.ts [--pods 1000]
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { parseArgs } from "node:util";
import { hasCode, silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  createInformer,
  loadKubeConfig,
  paths,
  requestToken,
  wireTime,
  type ApiClient,
} from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { packVirtualKubelet } from "../tools/pack-virtual-kubelet.ts";

const { values } = parseArgs({
  options: { pods: { type: "string", default: "1000" } },
});
const count = Number(values.pods);

interface Round {
  readonly runningMs: number;
  readonly goneMs: number;
  /** Versions of the pods on their way to Running. */
  readonly writesPerPod: number;
}

await using plane = await sharedControlPlane();
const admin = await connect(plane.kubeconfigPath);

const rounds: Record<string, Round> = {};
await withBareLoop("bench-warm-up", async () => void (await round("bench-warm-up", 100)));
for (const name of ["floor before", "library", "floor after"]) {
  if (name === "library") {
    const child = await startLibrary(plane);
    rounds[name] = await round("bench-vk", count);
    const { rssMiB, maxRssMiB } = await ask(child);
    report("library: largest resident memory", maxRssMiB, "MiB");
    report("library: resident memory after", rssMiB, "MiB");
    child.kill();
    await once(child, "exit");
    await admin.delete(paths.nodes("bench-vk"));
  } else {
    await withBareLoop("bench-bare", async () => {
      rounds[name] = await round("bench-bare", count);
    });
  }
  const { runningMs, goneMs, writesPerPod } = rounds[name] ?? fail();
  report(`${name}: all ${count} Running`, runningMs / 1000, "s");
  report(`${name}: all ${count} gone`, goneMs / 1000, "s");
  report(`${name}: writes per pod to Running`, writesPerPod, "");
}
const library = rounds["library"] ?? fail();
const floors = [rounds["floor before"] ?? fail(), rounds["floor after"] ?? fail()];
const mean = (field: "runningMs" | "goneMs"): number =>
  floors.reduce((sum, floor) => sum + floor[field], 0) / floors.length;
report("Running: times the floor", library.runningMs / mean("runningMs"), "");
report("gone: times the floor", library.goneMs / mean("goneMs"), "");
admin.close();

function report(figure: string, value: number, unit: string): void {
  console.log(JSON.stringify({ figure, value: Math.round(value * 100) / 100, unit }));
}

function fail(): never {
  throw new Error("A round is missing");
}

async function connect(kubeconfig: string): Promise<ApiClient> {
  return createApiClient(await loadKubeConfig({ path: kubeconfig }), {
    userAgent: "bench/1",
    logger: silentLogger,
    clock: systemClock,
  });
}

/** Creates the pods, waits until all run, deletes them, waits until all are gone. */
async function round(nodeName: string, pods: number): Promise<Round> {
  const namespace = await plane.createNamespace("bench");
  const stop = new AbortController();
  const running = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  const isRunning = new Set<string>();
  let left = pods;
  let writes = 0;
  createInformer<Pod>({
    client: admin,
    path: paths.pods(namespace),
    onEvent: ({ type, object }) => {
      if (type === "updated" && isRunning.size < pods) writes++;
      if (type !== "deleted" && object.status?.phase === "Running") {
        isRunning.add(object.metadata?.uid ?? "");
        if (isRunning.size === pods) running.resolve();
      }
      if (type === "deleted" && --left === 0) gone.resolve();
    },
    logger: silentLogger,
    clock: systemClock,
    signal: stop.signal,
  });
  const names = Array.from({ length: pods }, (_, index) => `p${index}`);
  const createdAt = performance.now();
  await Promise.all(names.map((name) => admin.create(paths.pods(namespace), pod(name, nodeName))));
  await running.promise;
  const runningMs = performance.now() - createdAt;
  const writesPerPod = writes / pods;
  const deletedAt = performance.now();
  await Promise.all(names.map((name) => remove(namespace, name)));
  await gone.promise;
  stop.abort();
  return { runningMs, goneMs: performance.now() - deletedAt, writesPerPod };
}

function pod(name: string, nodeName: string): Pod {
  return {
    metadata: { name },
    spec: {
      nodeName,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "example.test/web:1" }],
    },
  };
}

async function remove(namespace: string, name: string): Promise<void> {
  try {
    await admin.delete(paths.pods(namespace, name));
  } catch (error) {
    if (!hasCode(error, "K8S_NOT_FOUND")) throw error;
  }
}

/** The same calls for each pod as the library's, and nothing else: token, status, last status, deletion. */
async function withBareLoop(nodeName: string, work: () => Promise<void>): Promise<void> {
  const client = await connect(plane.kipKubeconfigPath);
  const underWay = new Set<Promise<void>>();
  const stop = new AbortController();
  const informer = createInformer<Pod>({
    client,
    path: paths.pods(),
    query: { fieldSelector: `spec.nodeName=${nodeName}` },
    onEvent: (event) => {
      const { object } = event;
      if (event.type === "added") underWay.add(unlessGone(startBare(client, object)));
      if (event.type !== "updated") return;
      const wasAsked = event.previous.metadata?.deletionTimestamp !== undefined;
      if (object.metadata?.deletionTimestamp !== undefined && !wasAsked)
        underWay.add(unlessGone(endBare(client, object)));
    },
    logger: silentLogger,
    clock: systemClock,
    signal: stop.signal,
  });
  await informer.synced;
  await work();
  await Promise.all(underWay);
  stop.abort();
  client.close();
}

async function unlessGone(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!hasCode(error, "K8S_NOT_FOUND")) throw error;
  }
}

async function startBare(client: ApiClient, { metadata, spec }: Pod): Promise<void> {
  const { namespace = "", name = "", uid = "" } = metadata ?? {};
  await requestToken(client, { namespace, serviceAccount: "default", pod: { name, uid } });
  const startedAt = wireTime(Date.now());
  const state = { running: { startedAt } };
  const status = {
    phase: "Running",
    podIP: "198.51.100.7",
    startTime: startedAt,
    conditions: [{ type: "Ready", status: "True" }],
    containerStatuses: (spec?.containers ?? []).map(({ name: container }) => ({
      name: container,
      ready: true,
      restartCount: 0,
      image: "",
      imageID: "",
      state,
    })),
  };
  await client.patch(paths.pods(namespace, name, "status"), { status }, "strategic");
}

async function endBare(client: ApiClient, { metadata }: Pod): Promise<void> {
  const { namespace = "", name = "", uid = "" } = metadata ?? {};
  const status = { phase: "Succeeded" };
  await client.patch(paths.pods(namespace, name, "status"), { status }, "strategic");
  await client.delete(paths.pods(namespace, name), { uid, graceSeconds: 0 });
}

async function startLibrary({ kipKubeconfigPath }: SharedControlPlane): Promise<ChildProcess> {
  // Inside the repository: its dependencies are found there.
  const folder = path.join(import.meta.dirname, "../dist/bench");
  packVirtualKubelet(folder);
  const program = path.join(import.meta.dirname, "virtual-kubelet-node.mjs");
  const child = fork(program, [path.join(folder, "package"), kipKubeconfigPath], {
    // What docs/virtual-kubelet.md tells to start programs with.
    execArgv: ["--max-semi-space-size=1", `--max-old-space-size=${48 + Math.ceil(count / 50)}`],
    env: { ...process.env, MALLOC_ARENA_MAX: "1" },
  });
  await once(child, "message");
  return child;
}

async function ask(child: ChildProcess): Promise<{ rssMiB: number; maxRssMiB: number }> {
  child.send("figures");
  const [answer] = (await once(child, "message")) as [{ rssMiB: number; maxRssMiB: number }]; // our own child's
  return answer;
}
