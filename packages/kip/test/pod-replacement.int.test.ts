import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  loadKubeConfig,
  namespaced,
  paths,
  type ApiClient,
} from "@kip/k8s-client";
import type { OwnerReference, Pod } from "@kip/k8s-types";
import { PodReplacement } from "../src/store/pod-replacement.ts";

const labels = { app: "web" };
const template = {
  metadata: { labels },
  spec: { nodeName: "none", containers: [{ name: "main", image: "i" }] },
};

let plane: SharedControlPlane;
let admin: ApiClient;
/** With the permissions of kip. */
let client: ApiClient;
let replacement: PodReplacement;

before(
  async () => {
    plane = await sharedControlPlane();
    const open = async (path: string): Promise<ApiClient> =>
      createApiClient(await loadKubeConfig({ path }), {
        userAgent: "test/1",
        logger: silentLogger,
        clock: systemClock,
      });
    admin = await open(plane.kubeconfigPath);
    client = await open(plane.kipKubeconfigPath);
    replacement = new PodReplacement({ client, clock: systemClock, logger: silentLogger });
  },
  { timeout: 900_000 },
);

after(async () => {
  admin?.close();
  client?.close();
  await plane?.[Symbol.asyncDispose]();
});

/** The pods of a namespace that are not being deleted. Waits until there are `count` of them. */
async function active(namespace: string, count: number): Promise<readonly Pod[]> {
  for (;;) {
    const { items } = await admin.list<Pod>(paths.pods(namespace));
    const pods = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    if (pods.length === count) return pods;
    await sleep(50);
  }
}

async function setReady({ metadata: { namespace, name } }: Pod): Promise<void> {
  const conditions = [{ type: "Ready", status: "True" }];
  const status = { phase: "Running", conditions };
  await admin.patch(paths.pods(namespace, name, "status"), { status }, "merge");
}

function ownerOf({ metadata }: Pod): OwnerReference {
  const owner = metadata.ownerReferences?.[0];
  assert.ok(owner, "the pod has an owner");
  return owner;
}

/** Creates a namespace with an owner of two ready pods. */
async function start(groupVersion: string, kind: string, selector: object) {
  const namespace = await plane.createNamespace("replace");
  const owners = namespaced(groupVersion, `${kind.toLowerCase()}s`);
  await admin.create(owners(namespace), {
    metadata: { name: "web" },
    spec: { replicas: 2, selector, template },
  });
  const pods = await active(namespace, 2);
  for (const pod of pods) await setReady(pod);
  const [first, second] = pods;
  assert.ok(first && second);
  return { namespace, owner: owners(namespace, "web"), first, second };
}

const kinds = [
  [
    "ReplicaSet",
    "/apis/apps/v1",
    {
      matchLabels: labels,
      matchExpressions: [{ key: "app", operator: "In", values: ["web", "v"] }],
    },
  ],
  ["ReplicationController", "/api/v1", labels],
] as const;

describe("PodReplacement with an API server", { timeout: 120_000 }, () => {
  for (const [kind, groupVersion, selector] of kinds) {
    it(`waits for the replacement that a ${kind} makes of an evicted pod`, async () => {
      const { namespace, owner, first, second } = await start(groupVersion, kind, selector);
      await replacement.evict(first.metadata, 100);
      const evicted = await admin.get<Pod>(paths.pods(namespace, first.metadata.name));
      assert.equal(evicted.metadata.deletionGracePeriodSeconds, 100);
      await replacement.evict(first.metadata, 100);
      const signal = AbortSignal.timeout(60_000);
      let isReplaced = false;
      const replaced = replacement.ready(first.metadata, ownerOf(first), signal).then(() => {
        isReplaced = true;
      });
      const pods = await active(namespace, 2);
      const next = pods.find(({ metadata }) => metadata.uid !== second.metadata.uid);
      assert.ok(next);
      await sleep(300);
      assert.equal(isReplaced, false);
      await setReady(next);
      await replaced;
      await replacement.evict({ ...first.metadata, name: "gone" }, 100);
      await admin.delete(owner, { propagation: "Background" });
      await replacement.ready(first.metadata, { ...ownerOf(first), name: "gone" }, signal);
    });
  }

  it("says that a PodDisruptionBudget forbids an eviction", async () => {
    const { namespace, first, owner } = await start("/apis/apps/v1", "ReplicaSet", {
      matchLabels: labels,
    });
    const budgets = namespaced("/apis/policy/v1", "poddisruptionbudgets");
    await admin.create(budgets(namespace), {
      metadata: { name: "web" },
      spec: { minAvailable: 2, selector: { matchLabels: labels } },
    });
    await assert.rejects(replacement.evict(first.metadata, 100), {
      code: "K8S_TOO_MANY_REQUESTS",
    });
    await admin.delete(owner, { propagation: "Background" });
  });
});
