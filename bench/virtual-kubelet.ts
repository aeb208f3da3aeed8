// npm run bench:virtual-kubelet: the virtual kubelet library against the real API server, beside a bare loop that
// makes the same API calls in the same run. One JSON line per figure, and a table with the goals at the end.
//   --pods 1000          pods that are created and deleted at once, beside the floor
//   --many 5000          pods for memory, and for CPU time while nothing happens
//   --idle-seconds 120   how long nothing happens: the comparison of API and provider runs each minute
//   --megabytes 100      what goes through exec and port-forward, 3 times each
//   --flags "..."        of the node's process
// 0 leaves a part out.
import { cpus, loadavg } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import { withBareLoop } from "./virtual-kubelet/bare-loop.ts";
import { Goals } from "./virtual-kubelet/goals.ts";
import {
  buildPackage,
  startNodeProcess,
  type NodeProcess,
} from "./virtual-kubelet/node-process.ts";
import { runRound, type Round } from "./virtual-kubelet/round.ts";
import { throughput } from "./virtual-kubelet/throughput.ts";

const { values } = parseArgs({
  options: {
    pods: { type: "string", default: "1000" },
    many: { type: "string", default: "5000" },
    "idle-seconds": { type: "string", default: "120" },
    megabytes: { type: "string", default: "100" },
    // The flags that docs/virtual-kubelet.md recommends.
    flags: { type: "string", default: "--max-semi-space-size=4 --max-old-space-size=512" },
  },
});
const pods = Number(values.pods);
const many = Number(values.many);
const idleSeconds = Number(values["idle-seconds"]);
const megabytes = Number(values.megabytes);

const goals = new Goals();
await using plane = await sharedControlPlane();
const admin = await connect(plane.kubeconfigPath);
const kip = await connect(plane.kipKubeconfigPath);
const folder = buildPackage();
goals.figure("processors", cpus().length, "");
goals.figure("load before, 1 minute", loadavg()[0] ?? 0, "");
if (pods > 0) await besideTheFloor();
if (many > 0) await manyPods();
if (megabytes > 0) await streams();
goals.figure("load after, 1 minute", loadavg()[0] ?? 0, "");
goals.print();
admin.close();
kip.close();

/** Measures the library between two rounds of the bare loop. */
async function besideTheFloor(): Promise<void> {
  await bare(100); // to warm up the API server
  const before = await bare(pods);
  let memory = 0;
  let usedMs = 0;
  const library = await withNode(async (node) => {
    const round = await runRound({ plane, client: admin, nodeName: "bench-vk", pods });
    ({ maxRssMiB: memory, cpuMs: usedMs } = await node.usage());
    return round;
  });
  const after = await bare(pods);
  const floor = (field: "runningMs" | "goneMs"): number => (before[field] + after[field]) / 2;
  goals.figure(`floor: ${pods} pods, all Running`, floor("runningMs") / 1000, "s");
  goals.figure(`floor: ${pods} pods, all gone`, floor("goneMs") / 1000, "s");
  goals.figure(`${pods} pods, all Running`, library.runningMs / 1000, "s", pods / 100);
  goals.figure("  times the floor", library.runningMs / floor("runningMs"), "", 1.5);
  goals.figure(`${pods} pods, all gone`, library.goneMs / 1000, "s", pods / 100);
  goals.figure("  times the floor", library.goneMs / floor("goneMs"), "", 1.5);
  goals.figure("  status writes per pod to Running", library.writesPerPod, "", 1);
  goals.figure("  resident memory at most", memory, "MiB", 150);
  goals.figure("  CPU time of the node, start and end included", usedMs / 1000, "s");
}

/** Measures the library alone, and the bare loop for comparison, because a busy machine affects both. */
async function manyPods(): Promise<void> {
  const floor = await bare(many);
  goals.figure(`floor: ${many} pods, all Running`, floor.runningMs / 1000, "s");
  goals.figure(`floor: ${many} pods, all gone`, floor.goneMs / 1000, "s");
  await withNode(async (node) => {
    let idle = 0;
    const { runningMs, goneMs } = await runRound({
      plane,
      client: admin,
      nodeName: "bench-vk",
      pods: many,
      whileRunning: async () => {
        idle = await idleShare(node);
      },
    });
    const { maxRssMiB } = await node.usage();
    goals.figure(`${many} pods, all Running`, runningMs / 1000, "s", many / 100);
    goals.figure("  times the floor", runningMs / floor.runningMs, "", 1.5);
    goals.figure(`${many} pods, all gone`, goneMs / 1000, "s", many / 100);
    goals.figure("  times the floor", goneMs / floor.goneMs, "", 1.5);
    goals.figure("  resident memory at most", maxRssMiB, "MiB", 300);
    if (idleSeconds > 0) goals.figure(`  CPU for ${idleSeconds} s idle`, idle, "% of a core", 3);
  });
}

/** CPU time of the idle node, in percent of one core. */
async function idleShare(node: NodeProcess): Promise<number> {
  if (idleSeconds === 0) return 0;
  const before = await node.usage();
  const startedAt = performance.now();
  await pause(idleSeconds * 1000); // idle time is measured
  const after = await node.usage();
  return (100 * (after.cpuMs - before.cpuMs)) / (performance.now() - startedAt);
}

async function streams(): Promise<void> {
  for (const [way, speed] of Object.entries(await throughput(megabytes, 3)))
    goals.figure(way, speed, "MB/s");
}

async function bare(count: number): Promise<Round> {
  let round: Round | undefined;
  const nodeName = "bench-bare";
  await withBareLoop({ client: kip, administrator: admin }, nodeName, async () => {
    round = await runRound({ plane, client: admin, nodeName, pods: count });
  });
  if (!round) throw new Error("The floor was not measured");
  return round;
}

/** Runs the node `bench-vk` with the library, and removes the node afterwards. */
async function withNode<T>(work: (node: NodeProcess) => Promise<T>): Promise<T> {
  const flags = values.flags.split(" ").filter((flag) => flag !== "");
  const kubeconfigPath = plane.kipKubeconfigPath;
  try {
    await using node = await startNodeProcess({
      folder,
      kubeconfigPath,
      nodeName: "bench-vk",
      flags,
    });
    return await work(node);
  } finally {
    await admin.delete(paths.nodes("bench-vk"));
  }
}

async function connect(kubeconfig: string): Promise<ApiClient> {
  return createApiClient(await loadKubeConfig({ path: kubeconfig }), {
    userAgent: "bench/1",
    logger: silentLogger,
    clock: systemClock,
  });
}
