import { PassThrough } from "node:stream";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { connectAgent } from "./agent.ts";
import { figure } from "./measure.ts";
import { deletePod, startPod, untilPod } from "./pods.ts";

const containers = 20;

/**
 * The round trip of a command in a container, and how long it takes from the end of a container until the API shows it. Each container of a pod
 * is ended once, by a command: the time counts from the command's request on, so it is a little more than what it says.
 */
export async function lifeFigures(client: ApiClient): Promise<void> {
  const names = Array.from({ length: containers }, (_, index) => `c${index}`);
  // A signal from its own namespace ends a first process only if it has a handler.
  const command = ["sh", "-c", "trap 'exit 3' USR1; sleep 100000 & wait"];
  const start = await startPod(client, "life", { containers: names, command });
  await using agent = await connectAgent(client, start.cell);
  const run = async (name: string, ...command: readonly string[]): Promise<void> => {
    const streams = { tty: false, stdout: new PassThrough().resume() };
    await agent.exec(name, command, streams, new AbortController().signal).catch(() => {});
  };
  const execs: number[] = [];
  for (let count = 0; count < 2 * containers; count++) {
    const began = performance.now();
    await run(names[count % containers] ?? "", "true");
    execs.push(performance.now() - began);
  }
  figure("exec, round trip to the agent", execs, "ms");
  const ends: number[] = [];
  for (const name of names) {
    const { namespace, name: pod } = start.cell.spec.podRef;
    const created = await client.get<Pod>(paths.pods(namespace, pod));
    const shown = untilPod(client, created, (seen) => hasEnded(seen, name));
    const began = performance.now();
    void run(name, "kill", "-USR1", "1");
    await shown;
    ends.push(performance.now() - began);
  }
  figure("end of a container to its status in the API", ends, "ms");
  await deletePod(client, start);
}

function hasEnded({ status }: Pod, name: string): boolean {
  const own = status?.containerStatuses?.find((each) => each.name === name);
  return own?.state?.terminated !== undefined || own?.lastState?.terminated !== undefined;
}
