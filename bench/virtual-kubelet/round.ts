import { silentLogger, systemClock } from "@kip/base";
import type { SharedControlPlane } from "@kip/control-plane/testing";
import { isNotFound, createInformer, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";

/** Results of pods that were created and deleted at once. */
export interface Round {
  /** From the first creation until the last pod is Running, milliseconds. */
  readonly runningMs: number;
  /** From the first deletion until the last pod's object is gone, milliseconds. */
  readonly goneMs: number;
  /** Number of versions of a pod until it is Running. */
  readonly writesPerPod: number;
}

/** Options of {@link runRound}. */
export interface RoundOptions {
  readonly plane: SharedControlPlane;
  /** The administrator's client. */
  readonly client: ApiClient;
  /** Node that the pods are bound to. */
  readonly nodeName: string;
  readonly pods: number;
  /** Called while all pods run, and not timed. */
  readonly whileRunning?: () => Promise<void>;
}

/** Creates the pods, waits until all run, deletes them, and waits until all are gone. */
export async function runRound(options: RoundOptions): Promise<Round> {
  const { client, nodeName, pods } = options;
  const namespace = await options.plane.createNamespace("bench");
  const stop = new AbortController();
  const running = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  const isRunning = new Set<string>();
  let left = pods;
  let writes = 0;
  createInformer<Pod>({
    client,
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
  await Promise.all(names.map((name) => client.create(paths.pods(namespace), pod(name, nodeName))));
  await running.promise;
  const runningMs = performance.now() - createdAt;
  const writesPerPod = writes / pods;
  await options.whileRunning?.();
  const deletedAt = performance.now();
  await Promise.all(names.map((name) => remove(client, paths.pods(namespace, name))));
  await gone.promise;
  stop.abort();
  return { runningMs, goneMs: performance.now() - deletedAt, writesPerPod };
}

function pod(name: string, nodeName: string): object {
  return {
    metadata: { name },
    spec: {
      nodeName,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "example.test/web:1" }],
    },
  };
}

async function remove(client: ApiClient, path: string): Promise<void> {
  try {
    await client.delete(path);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
