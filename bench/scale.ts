// npm run bench:scale: kip with thousands of pods on a real API server. Machines and agents are simulated: each agent answers at
// an address of 127.0.0.0/8 over real connections, and says that its containers run. JSON lines, and a table with the goals.
// Kip has one open file for each machine: see `ulimit -n`.
//   --pods 5000         created at once
//   --lost 1000         machines that the cloud takes back while all run
//   --idle-seconds 60   how long nothing happens
import { fork } from "node:child_process";
import { once } from "node:events";
import { cpus, loadavg } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths } from "@kip/k8s-client";
import { allocatorSettings, nodeFlags } from "@kip/kip/process-settings";
import { ScalePods } from "./scale/pods.ts";
import { writesByResource } from "./scale/api-writes.ts";
import type { Question, Usage } from "./scale/kip.ts";
import { Goals } from "./virtual-kubelet/goals.ts";

const { values } = parseArgs({
  options: {
    pods: { type: "string", default: "5000" },
    lost: { type: "string", default: "1000" },
    "idle-seconds": { type: "string", default: "60" },
  },
});
const count = Number(values.pods);
const lost = Math.min(Number(values.lost), count);
const idleSeconds = Number(values["idle-seconds"]);
const nodeName = "bench-scale";

const goals = new Goals();
await using plane = await sharedControlPlane();
const client = createApiClient(await loadKubeConfig({ path: plane.kubeconfigPath }), {
  userAgent: "bench/1",
  logger: silentLogger,
  clock: systemClock,
});
const program = path.join(import.meta.dirname, "scale/kip.ts");
const kip = fork(program, [plane.kubeconfigPath, nodeName], {
  execArgv: [...nodeFlags],
  env: { ...process.env, ...allocatorSettings },
});
const ended = once(kip, "exit").then(([status]): never => {
  throw new Error(`kip has ended with status ${String(status)}`);
});
ended.catch(() => {}); // the caller that awaits a response handles it
try {
  await Promise.race([once(kip, "message"), ended]);
  await measure();
} finally {
  kip.kill();
  await client.delete(paths.nodes(nodeName)).catch(() => {}); // it may not exist yet
  client.close();
}
goals.print();

async function measure(): Promise<void> {
  goals.figure("processors", cpus().length, "");
  goals.figure("load before, 1 minute", loadavg()[0] ?? 0, "");
  goals.figure("kip without pods, resident memory", (await usage()).rssMiB, "MiB");
  const writesBefore = await writesByResource(client);
  await using pods = new ScalePods({ client, nodeName, namespace: await plane.createNamespace() });

  const start = await timed(async () => await pods.create(count));
  goals.figure(`${count} pods, all Running`, start.seconds, "s", count / 50);
  goals.figure("  pods a second", count / start.seconds, "");
  report("  ", start);

  if (idleSeconds > 0) {
    await settledWrites(); // otherwise most of this time would be the writing of the start's events
    const idle = await timed(async () => await pause(idleSeconds * 1000)); // idle time is measured
    const share = (100 * idle.cpuMs) / (idle.seconds * 1000);
    goals.figure(`  ${idleSeconds} s idle, processor`, share, "% of a core", 100);
    report("  idle: ", idle);
  }
  if (lost > 0) {
    const loss = await timed(async () => await pods.restarted(lost, ask({ take: lost })));
    goals.figure(`${lost} machines lost, all replaced`, loss.seconds, "s");
    report("  ", loss);
  }
  const end = await timed(async () => await pods.remove());
  goals.figure(`${count} pods, all gone`, end.seconds, "s", count / 50);
  report("  ", end);
  goals.figure("  instances left", end.instances, "", 0);
  goals.figure("kip's processor time in a pod's life", (start.cpuMs + end.cpuMs) / count, "ms");
  const writes = await settledWrites();
  // The bench itself has created and deleted each pod.
  let objects = -2 * count;
  let events = 0;
  for (const [resource, total] of writes) {
    const more = total - (writesBefore.get(resource) ?? 0);
    if (more >= count / 100) goals.figure(`  writes of ${resource}`, more / count, "a pod");
    if (resource.startsWith("events")) events += more;
    else objects += more;
  }
  goals.figure("API writes in a pod's life, without the user's", (objects + events) / count, "", 4);
  goals.figure("  of the pod and its Cell", objects / count, "");
  goals.figure("  of events, without those of the agent", events / count, "");
  goals.figure("load after, 1 minute", loadavg()[0] ?? 0, "");
}

/** The number of writes, after two seconds without any. Kip writes events one by one, after everything else. */
async function settledWrites(): Promise<ReadonlyMap<string, number>> {
  for (let before = ""; ; await pause(2000)) {
    const writes = await writesByResource(client);
    const now = JSON.stringify([...writes]);
    if (now === before) return writes;
    before = now;
  }
}

interface Timed extends Usage {
  readonly seconds: number;
}

/** The resources used by `work`. Memory is the overall peak. */
async function timed(work: () => Promise<unknown>): Promise<Timed> {
  const before = await usage();
  const startedAt = performance.now();
  await Promise.race([work(), ended]);
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await usage();
  return { ...after, seconds, cpuMs: after.cpuMs - before.cpuMs };
}

function report(indent: string, { cpuMs, blockedMs, rssMiB, maxRssMiB }: Timed): void {
  goals.figure(`${indent}kip's processor time`, cpuMs / 1000, "s");
  goals.figure(`${indent}kip's longest block`, blockedMs, "ms");
  goals.figure(`${indent}kip's resident memory`, rssMiB, "MiB", 400);
  goals.figure(`${indent}kip's resident memory at most`, maxRssMiB, "MiB");
}

async function usage(): Promise<Usage> {
  return await ask("usage");
}

async function ask(question: Question): Promise<Usage> {
  kip.send(question);
  const [answer] = (await Promise.race([once(kip, "message"), ended])) as [Usage]; // our own child
  return answer;
}
