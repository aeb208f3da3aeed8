import { setTimeout as sleep } from "node:timers/promises";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { Cell } from "@kip/kip";

/** How long a pod took to start, and its Cell with the times of each phase. */
export interface PodStart {
  /** From creation to Ready, milliseconds. */
  readonly readyMs: number;
  /** From creation to the agent's first response, milliseconds. */
  readonly answerMs: number;
  readonly cell: Cell;
}

/** Starts a pod with the smallest image on a cell of type local.small, and measures the time. */
export async function startPod(
  client: ApiClient,
  name: string,
  {
    containers = ["main"],
    command = ["sleep", "100000"],
    stdin = false,
    probes = {},
  }: Partial<PodContainers> = {},
): Promise<PodStart> {
  const began = performance.now();
  const created = await client.create<Pod>(
    paths.pods("default"),
    podOf(name, { containers, command, stdin, probes }),
  );
  await untilPod(client, created, isReady);
  const readyMs = performance.now() - began;
  const cell = await startedCell(client, `cell-${created.metadata?.uid}`);
  const { api = 0, cloud = 0, boot = 0, dial = 0 } = cell.status?.startMs ?? {};
  return { readyMs, answerMs: api + cloud + boot + dial, cell };
}

/** Deletes a pod, and waits until its machine is also gone. */
export async function deletePod(client: ApiClient, start: PodStart): Promise<void> {
  const { namespace, name } = start.cell.spec.podRef;
  await client.delete(paths.pods(namespace, name), { graceSeconds: 0 });
  for (;;) {
    const { items } = await client.get<{ readonly items: readonly Cell[] }>(paths.cells());
    if (!items.some(({ metadata }) => metadata.uid === start.cell.metadata.uid)) return;
    await sleep(100); // between two measurements, where it does not matter
  }
}

interface PodContainers {
  readonly containers: readonly string[];
  readonly command: readonly string[];
  /** Whether the containers have an input. */
  readonly stdin: boolean;
  /** Probes of each container. */
  readonly probes: object;
}

function podOf(name: string, { containers, command, stdin, probes }: PodContainers): object {
  return {
    // A request would claim CPUs of the node, which all pods share.
    metadata: { name, annotations: { "pod.elotl.co/instance-type": "local.small" } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: containers.map((container) => ({
        name: container,
        image: "kip.local/demo:latest",
        command,
        stdin,
        ...probes,
      })),
    },
  };
}

function isReady(pod: Pod): boolean {
  return (pod.status?.conditions ?? []).some(
    ({ type, status }) => type === "Ready" && status === "True",
  );
}

/** Resolves when the pod matches, by a watch from this version on. */
export async function untilPod(
  client: ApiClient,
  created: Pod,
  matches: (pod: Pod) => boolean,
): Promise<void> {
  const query = {
    fieldSelector: `metadata.name=${created.metadata?.name}`,
    watch: true,
    resourceVersion: created.metadata?.resourceVersion,
  };
  const stream = await client.stream(paths.pods("default"), { query });
  try {
    let text = "";
    for await (const chunk of stream.setEncoding("utf8")) {
      const lines = (text + String(chunk)).split("\n");
      text = lines.pop() ?? "";
      if (lines.some((line) => matches((JSON.parse(line) as { object: Pod }).object))) return;
    }
    throw new Error("The watch on the pod ended");
  } finally {
    stream.destroy();
  }
}

/** The Cell with all of its times, which are written after the pod's status. */
async function startedCell(client: ApiClient, name: string): Promise<Cell> {
  for (;;) {
    const cell = await client.get<Cell>(paths.cells(name));
    if (cell.status?.startMs?.start !== undefined) return cell;
    await sleep(100); // after the measurement
  }
}
