import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before } from "node:test";
import { createLogger, silentLogger, systemClock, type Logger } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import {
  startNode,
  type NodeOptions,
  type PodProvider,
  type RunningNode,
} from "@kip/virtual-kubelet";
import { MemoryProvider, polledVariant } from "@kip/virtual-kubelet/testing";
import { until } from "../eventually.ts";

/** KIP_TEST_LOG shows the log of a test's node. */
export const logger: Logger =
  process.env["KIP_TEST_LOG"] === undefined ? silentLogger : createLogger({ level: "debug" });

/** What the tests of a file share. */
export interface Cluster {
  readonly plane: SharedControlPlane;
  readonly admin: ApiClient;
  /** As user kip, who may do only what a virtual kubelet needs. */
  readonly client: ApiClient;
}

/** The control plane of this run, for the tests of the calling file; a field is there once they run. */
export function useCluster(): Cluster {
  let cluster: Cluster | undefined;
  before(
    async () => {
      const plane = await sharedControlPlane();
      const admin = await connect(plane.kubeconfigPath);
      const client = await connect(plane.kipKubeconfigPath);
      cluster = { plane, admin, client };
    },
    { timeout: 900_000 },
  );
  after(async () => {
    cluster?.client.close();
    cluster?.admin.close();
    await cluster?.plane[Symbol.asyncDispose]();
  });
  const there = (): Cluster => {
    assert.ok(cluster, "the control plane has been started");
    return cluster;
  };
  return {
    get plane() {
      return there().plane;
    },
    get admin() {
      return there().admin;
    },
    get client() {
      return there().client;
    },
  };
}

async function connect(path: string): Promise<ApiClient> {
  return createApiClient(await loadKubeConfig({ path }), {
    userAgent: "test/1",
    logger,
    clock: systemClock,
  });
}

export function uniqueNodeName(): string {
  return `vk-${randomBytes(3).toString("hex")}`;
}

/** A node of the test's own, gone with the test. */
export async function nodeWith(
  cluster: Cluster,
  provider: PodProvider,
  options: Partial<NodeOptions> = {},
): Promise<{ node: RunningNode; name: string } & AsyncDisposable> {
  const name = options.nodeName ?? uniqueNodeName();
  const node = await startNode({
    client: cluster.client,
    provider,
    clock: systemClock,
    logger,
    ...options,
    nodeName: name,
  });
  return {
    node,
    name,
    [Symbol.asyncDispose]: async () => {
      await node[Symbol.asyncDispose]();
      await cluster.admin.delete(paths.nodes(name)).catch(() => {});
    },
  };
}

/** The two ways a provider's statuses come, and the provider behind both. */
export const variants: readonly {
  readonly name: string;
  readonly make: () => { readonly memory: MemoryProvider; readonly provider: PodProvider };
}[] = [
  {
    name: "notifier",
    make: () => {
      const memory = new MemoryProvider();
      return { memory, provider: memory };
    },
  },
  {
    name: "polled",
    make: () => {
      const memory = new MemoryProvider();
      return { memory, provider: polledVariant(memory) };
    },
  },
];

/** A pod that a test wants. */
export interface PodWish {
  readonly namespace: string;
  readonly node: string;
  readonly name?: string;
  readonly metadata?: Partial<NonNullable<Pod["metadata"]>>;
  readonly spec?: Partial<NonNullable<Pod["spec"]>>;
  readonly container?: Partial<NonNullable<Pod["spec"]>["containers"][number]>;
}

export async function createPod(
  { admin }: Cluster,
  { namespace, node, name = "web", ...wish }: PodWish,
): Promise<Pod> {
  return admin.create<Pod>(paths.pods(namespace), {
    metadata: { name, ...wish.metadata },
    spec: {
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "example.test/web:1", ...wish.container }],
      ...wish.spec,
    },
  });
}

/** A pod that runs, alone in a namespace of its own. */
export async function runningPod(
  cluster: Cluster,
  wish: Omit<PodWish, "namespace">,
): Promise<{ readonly namespace: string; readonly uid: string }> {
  const namespace = await cluster.plane.createNamespace();
  const { metadata } = await createPod(cluster, { ...wish, namespace });
  await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
  return { namespace, uid: metadata.uid };
}

/** Waits until the pods of a namespace are as they should be. */
export async function podsUntil(
  { admin }: Cluster,
  namespace: string,
  check: (pods: readonly Pod[]) => boolean,
): Promise<Pod[]> {
  return until<Pod>({ client: admin, path: paths.pods(namespace), check });
}

export const isRunning = (pod: Pod | undefined): boolean =>
  pod?.status?.phase === "Running" &&
  pod.status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;

export function observedGeneration(pod: Pod | undefined): number {
  // Newer than the types we have.
  const status = (pod?.status ?? {}) as { readonly observedGeneration?: number };
  return status.observedGeneration ?? 0;
}

/** Resolves after the next call of that name has taken effect. */
export async function waitForCall(provider: MemoryProvider, call: string): Promise<void> {
  const seen = Promise.withResolvers<void>();
  const earlier = provider.gate;
  provider.gate = async (each) => {
    if (each.call === call) setImmediate(seen.resolve);
    await earlier(each);
  };
  await seen.promise;
  provider.gate = earlier;
}
