import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inParallel, systemClock } from "@kip/base";
import { paths } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { eventually } from "@kip/testing";
import { startNode } from "@kip/virtual-kubelet";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import {
  createPod,
  isRunning,
  logger,
  observedGeneration,
  podsUntil,
  uniqueNodeName,
  useCluster,
} from "./support/cluster.ts";
import { Killable } from "./support/killable.ts";

const cluster = useCluster();

/** Number of scenarios that run in parallel. The machine has two cores. */
const abreast = 6;

/**
 * The life of a pod: created, changed, deleted. The node's process dies at one of the gates, and another one replaces it. The
 * result must be the same as without a kill.
 *
 * @returns names of the gates that were passed, if no process was killed
 */
async function live(killAt: number): Promise<readonly string[]> {
  const nodeName = uniqueNodeName();
  const namespace = await cluster.plane.createNamespace();
  const backend = new MemoryProvider();
  const started: string[] = [];
  const original = backend.gate;
  backend.gate = async (call) => {
    if (call.call === "apply" && !backend.pods.has(call.uid)) started.push(call.uid);
    await original(call);
  };
  const first = new Killable(killAt);
  const node = await start(first, nodeName, backend);
  first.arm();
  const successor = first.death.then(() => start(new Killable(), nodeName, backend));
  const pod = await createPod(cluster, { namespace, node: nodeName });
  const uid = pod.metadata.uid;
  await podsUntil(cluster, namespace, ([each]) => isRunning(each));
  await cluster.admin.patch(
    paths.pods(namespace, "web"),
    { spec: { containers: [{ name: "main", image: "example.test/web:2" }] } },
    "strategic",
  );
  const [changed] = await podsUntil(
    cluster,
    namespace,
    ([each]) => observedGeneration(each) >= (each?.metadata?.generation ?? 1) && isNew(each),
  );
  assert.equal(changed?.status?.phase, "Running", "a healthy pod was disturbed");
  assert.equal(backend.pods.get(uid)?.pod.spec.containers[0]?.image, "example.test/web:2");
  assert.equal(backend.count("remove") + backend.count("removeUnknown"), 0, "removed unasked");
  await cluster.admin.delete(paths.pods(namespace, "web"));
  await podsUntil(cluster, namespace, (pods) => pods.length === 0);
  await eventually(() => backend.pods.size === 0);
  assert.deepEqual(started, [uid], "the pod was started once");
  first.disarm(); // a pending answer must not kill a process that has been replaced
  const ending = node[Symbol.asyncDispose]();
  if (first.isDead) await (await successor)[Symbol.asyncDispose]();
  else await ending; // dead processes do not answer
  await cluster.admin.delete(paths.nodes(nodeName)).catch(() => {});
  return first.passed;
}

function isNew(pod: Pod | undefined): boolean {
  return pod?.spec?.containers[0]?.image === "example.test/web:2";
}

async function start(process: Killable, nodeName: string, backend: MemoryProvider) {
  return startNode({
    client: process.client(cluster.client),
    provider: process.provider(backend),
    nodeName,
    clock: systemClock,
    logger,
    intervals: { podBackoffMs: 50, sweepMs: 1000 },
  });
}

describe("a node whose process is killed", () => {
  it("at any await of a pod's life: the pod runs once, changes, and goes", async (t) => {
    const gates = await live(Number.POSITIVE_INFINITY);
    assert.ok(gates.some((name) => name.includes("apply")) && gates.length >= 16, String(gates));
    const failures: string[] = [];
    await inParallel(gates.keys(), abreast, async (point) => {
      try {
        await live(point);
      } catch (error) {
        failures.push(`killed ${gates[point]} (${point}): ${String(error).slice(0, 300)}`);
      }
    });
    assert.deepEqual(failures, []);
    t.diagnostic(`killed at ${gates.length} points: ${[...new Set(gates)].join(", ")}`);
  });
});
