// Kills and restarts the API server itself twice, while its nodes run pods.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { systemClock } from "@kip/base";
import {
  findRelease,
  obtainBinaries,
  startControlPlane,
  type ControlPlane,
} from "@kip/control-plane";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease, Node, Pod } from "@kip/k8s-types";
import { startNode } from "@kip/virtual-kubelet";
import { until } from "./eventually.ts";
import { isRunning, logger, variants } from "./support/cluster.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const version = process.env["KIP_KUBERNETES_VERSION"];
const namespace = "default";
const kills = 2;
let folder: string;
let plane: ControlPlane;
let admin: ApiClient;
/** Resolves with the next unexpected end of a program. */
let nextExit = Promise.withResolvers<string>();

async function connect(kubeconfig: string): Promise<ApiClient> {
  return createApiClient(await loadKubeConfig({ path: kubeconfig }), {
    userAgent: "test/1",
    logger,
    clock: systemClock,
  });
}

before(
  async () => {
    folder = await mkdtemp(path.join(tmpdir(), "vk-killed-"));
    plane = await startControlPlane({
      binaries: await obtainBinaries({
        cacheDir,
        ...(version !== undefined && { release: findRelease(version) }),
      }),
      dataDir: path.join(folder, "data"),
      logDir: path.join(folder, "log"),
      port: 0,
      onExit: ({ program }) => nextExit.resolve(program),
    });
    admin = await connect(plane.adminKubeconfig);
    await until({
      client: admin,
      path: paths.serviceAccounts(namespace),
      check: (accounts) => accounts.some(({ metadata }) => metadata?.name === "default"),
    });
  },
  { timeout: 900_000 },
);

after(async () => {
  admin.close();
  await plane.stop();
  await rm(folder, { recursive: true, force: true });
});

async function create(node: string, name: string): Promise<Pod> {
  return admin.create<Pod>(paths.pods(namespace), {
    metadata: { name: `${node}-${name}` },
    spec: {
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "example.test/web:1" }],
    },
  });
}

async function killApiServer(): Promise<void> {
  const pid = plane.pids["kube-apiserver"];
  assert.ok(pid !== undefined);
  nextExit = Promise.withResolvers();
  process.kill(pid, "SIGKILL");
  assert.equal(await nextExit.promise, "kube-apiserver");
}

describe("nodes whose API server is killed", { timeout: 170_000 }, () => {
  it("are Ready again, and so are their pods, none of which was started twice or removed", async () => {
    await using nodes = new AsyncDisposableStack();
    const all = await Promise.all(
      variants.map(async ({ name, make }) => {
        const { memory, provider } = make();
        /** UIDs in the order in which they appeared. */
        const starts: string[] = [];
        memory.gate = async ({ call, uid }) => {
          if (call === "apply" && !memory.pods.has(uid)) starts.push(uid);
        };
        const client = await connect(plane.kipKubeconfig);
        nodes.defer(() => client.close());
        const intervals = { sweepMs: 200, leaseMs: 1000, podBackoffMaxMs: 1000 };
        const options = { client, provider, clock: systemClock, logger, intervals };
        nodes.use(await startNode({ ...options, nodeName: name }));
        return { name, memory, starts };
      }),
    );
    const podsUntil = async (check: (pods: readonly Pod[]) => boolean): Promise<Pod[]> =>
      until<Pod>({ client: admin, path: paths.pods(namespace), check });
    const finished = new Set<string>();
    const asWanted = (pods: readonly Pod[]): boolean =>
      pods.every((pod) =>
        finished.has(pod.metadata.uid) ? pod.status?.phase === "Succeeded" : isRunning(pod),
      );

    for (const { name } of all)
      await Promise.all([1, 2, 3, 4].map(async (number) => await create(name, `early-${number}`)));
    const early = await podsUntil((pods) => pods.length === 8 && asWanted(pods));
    for (let round = 0; round < kills; round++) {
      // These are under way when it is killed.
      for (const { name } of all)
        await Promise.all(
          [1, 2, 3, 4].map(async (number) => await create(name, `round-${round}-${number}`)),
        );
      await killApiServer();
      const gone = Date.now();
      // Changes while the API server is down are reported later.
      for (const { name, memory } of all) {
        const pod = early.filter(({ spec }) => spec?.nodeName === name)[round];
        finished.add(pod?.metadata?.uid ?? "");
        memory.report(pod?.metadata?.uid ?? "", "Succeeded");
      }
      await podsUntil((pods) => pods.length === 8 * (round + 2) && asWanted(pods));
      for (const { name } of all) {
        const fieldSelector = `metadata.name=${name}`;
        await until<Lease>({
          client: admin,
          path: paths.leases("kube-node-lease"),
          fieldSelector,
          check: ([lease]) => Date.parse(String(lease?.spec?.renewTime)) > gone,
        });
        await until<Node>({
          client: admin,
          path: paths.nodes(),
          fieldSelector,
          check: ([node]) =>
            node?.status?.conditions?.some(
              ({ type, status }) => type === "Ready" && status === "True",
            ),
        });
      }
    }
    for (const { memory, starts } of all) {
      assert.equal(starts.length, 4 * (kills + 1));
      assert.equal(new Set(starts).size, starts.length, "each pod was started once");
      assert.equal(memory.count("remove") + memory.count("removeUnknown"), 0);
    }
    // Everything works as usual afterwards.
    for (const { metadata } of await podsUntil(asWanted))
      await admin.delete(paths.pods(namespace, metadata?.name ?? ""));
    await podsUntil((pods) => pods.length === 0);
  });
});
