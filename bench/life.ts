// node bench/life.ts: on a cell of the local cloud, the round trip of a command in a container, how long the end of a container takes
// until the API shows it, and what the agent takes. A part of npm run bench, too.
// Options: --ends N, ends of containers that are timed (default 40) · --containers N, those of the pod whose agent is measured (default 5)
// · --seconds N, how long its processor time is measured (default 60)
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { AgentClient } from "@kip/agent-api";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { connectAgent } from "./agent.ts";
import { figure, rounded } from "./measure.ts";
import { deletePod, startPod, untilPod, type PodStart } from "./pods.ts";

/** Number of containers of the pod whose ends are timed. Each ends twice. After the second end it waits for its restart. */
const endingContainers = 10;
const endsOfEach = 2;

/** Options of {@link lifeFigures}. */
export interface LifeOptions {
  /** Number of container ends to time. @default 40 */
  readonly ends: number;
  /** Containers of the pod whose agent is measured. @default 5 */
  readonly containers: number;
  /** How long to measure the agent's CPU time. @default 60 */
  readonly seconds: number;
}

const defaults: LifeOptions = { ends: 40, containers: 5, seconds: 60 };

/** Prints the figures about a pod's life on a cell. */
export async function lifeFigures(
  client: ApiClient,
  options: LifeOptions = defaults,
): Promise<void> {
  const execs: number[] = [];
  const ends: number[] = [];
  while (ends.length < options.ends) {
    const names = Array.from({ length: endingContainers }, (_, index) => `c${index}`);
    // It ends when it reads a line, without starting another process first.
    const command = ["sh", "-c", "read line; exit 3"];
    const start = await startPod(client, "life", { containers: names, command, stdin: true });
    await using agent = await connectAgent(client, start.cell);
    execs.push(...(await timeCommands(agent, names)));
    for (let count = 0; count < endsOfEach; count++)
      for (const name of names) ends.push(await timeEnd(client, agent, { start, name }));
    await deletePod(client, start);
  }
  figure("exec, round trip to the agent", execs, "ms");
  figure("end of a container to its status in the API", ends, "ms");
  await agentCost(client, options);
}

async function timeCommands(agent: AgentClient, names: readonly string[]): Promise<number[]> {
  const times: number[] = [];
  for (const name of [...names, ...names]) {
    const streams = { tty: false, stdout: new PassThrough().resume() };
    const began = performance.now();
    await agent.exec(name, ["true"], streams, new AbortController().signal);
    times.push(performance.now() - began);
  }
  return times;
}

/** Ends a container by a line on its input, and measures the time from then on. The line arrives within a few milliseconds. */
async function timeEnd(
  client: ApiClient,
  agent: AgentClient,
  { start, name }: { readonly start: PodStart; readonly name: string },
): Promise<number> {
  const { namespace, name: pod } = start.cell.spec.podRef;
  let before = await client.get<Pod>(paths.pods(namespace, pod));
  if (!isRunning(before, name)) {
    await untilPod(client, before, (seen) => isRunning(seen, name));
    before = await client.get<Pod>(paths.pods(namespace, pod));
  }
  const id = containerOf(before, name)?.containerID;
  const shown = untilPod(client, before, (seen) => hasEnded(seen, name, id));
  const stdin = new PassThrough();
  const streams = { tty: false, stdin, stdout: new PassThrough().resume() };
  const attached = agent.attach(name, streams, new AbortController().signal).catch(() => {});
  // Give the input and the watch time to open before the line is sent.
  await sleep(500);
  const began = performance.now();
  stdin.end("\n");
  await shown;
  const ended = performance.now() - began;
  await attached;
  return ended;
}

function containerOf({ status }: Pod, name: string) {
  return status?.containerStatuses?.find((each) => each.name === name);
}

function isRunning(pod: Pod, name: string): boolean {
  return containerOf(pod, name)?.state?.running !== undefined;
}

function hasEnded(pod: Pod, name: string, id: string | undefined): boolean {
  const { state, lastState } = containerOf(pod, name) ?? {};
  return [state, lastState].some((one) => one?.terminated?.containerID === id && id !== undefined);
}

/** Memory and CPU time of the agent of a pod that has probes every ten seconds and is otherwise idle. */
async function agentCost(client: ApiClient, options: LifeOptions): Promise<void> {
  const names = Array.from({ length: options.containers }, (_, index) => `c${index}`);
  const probe = { tcpSocket: { port: 8080 }, timeoutSeconds: 10 };
  for (const probes of [{}, { readinessProbe: probe, livenessProbe: probe }]) {
    const hasProbes = Object.keys(probes).length > 0;
    const command = hasProbes
      ? ["sh", "-c", "httpd -f -p 8080 || sleep 100000"]
      : ["sleep", "100000"];
    const start = await startPod(client, "costs", { containers: names, command, probes });
    await using agent = await connectAgent(client, start.cell);
    await sleep(15_000); // the work after a pod's start is over
    const first = await agent.stats();
    await sleep(options.seconds * 1000);
    const second = await agent.stats();
    const used = (second.agentCpuMicroseconds - first.agentCpuMicroseconds) / 1e6;
    const what = `${options.containers} containers${hasProbes ? " with two probes each" : ""}`;
    figure(`agent resident memory, ${what}`, [second.agentRssBytes / 2 ** 20], "MiB");
    figure(`agent CPU, ${what}`, [rounded((used / options.seconds) * 100)], "% of a core");
    const asked: number[] = [];
    for (let count = 0; count < 10; count++) {
      const before = (await agent.stats()).agentCpuMicroseconds;
      asked.push(((await agent.stats()).agentCpuMicroseconds - before) / 1000);
    }
    figure(`agent CPU for an answer with figures, ${what}`, asked, "ms");
    await deletePod(client, start);
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      ends: { type: "string", default: String(defaults.ends) },
      containers: { type: "string", default: String(defaults.containers) },
      seconds: { type: "string", default: String(defaults.seconds) },
    },
  });
  if (values.help) {
    console.log("node bench/life.ts [--ends=40] [--containers=5] [--seconds=60]");
  } else {
    const { kipCommand, removeCluster, upFlags, useCluster } = await import("./local-cluster.ts");
    try {
      const up = await kipCommand("up", ...upFlags);
      if (up.status !== 0) throw new Error(up.stderr);
      const options = {
        ends: Number(values.ends),
        containers: Number(values.containers),
        seconds: Number(values.seconds),
      };
      await useCluster(async (client) => await lifeFigures(client, options));
    } finally {
      await removeCluster();
    }
  }
}
