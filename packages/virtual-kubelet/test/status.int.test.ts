import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, systemClock } from "@kip/base";
import { paths } from "@kip/k8s-client";
import type { ContainerStatus, Pod, PodStatus } from "@kip/k8s-types";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import type { ProviderCallbacks } from "@kip/virtual-kubelet";
import { statusPatch } from "../src/pods/status-patch.ts";
import { StatusWriter } from "../src/pods/status-writer.ts";
import {
  createPod,
  isRunning,
  nodeWith,
  podsUntil,
  runningPod,
  uniqueNodeName,
  useCluster,
} from "./support/cluster.ts";

const cluster = useCluster();

/** A provider whose reports the test defines. */
class ReportingProvider extends MemoryProvider {
  callbacks: ProviderCallbacks | undefined;

  override async start(callbacks: ProviderCallbacks): Promise<void> {
    this.callbacks = callbacks;
    await super.start(callbacks);
  }

  tell(uid: string, change: Partial<PodStatus>): void {
    const status = { ...this.statuses.get(uid), ...change };
    this.callbacks?.podStatus({ uid, status });
  }
}

const ready = (pod: Pod | undefined) =>
  pod?.status?.conditions?.find(({ type }) => type === "Ready");

const theirs = { metadata: { annotations: { theirs: "yes" } } };

/** A writer in a process that has seen no later state of the pod than this one. Also records what it refuses or logs. */
function writerFor(seen: Pod) {
  const problems: unknown[] = [];
  let known = seen;
  const writer = new StatusWriter({
    client: cluster.client,
    clock: systemClock,
    logger: createLogger({ level: "info", write: (line) => void problems.push(line) }),
    pod: () => known,
    onAnswer: (pod) => (known = pod),
    onRefused: (error) => void problems.push(error),
    observedGeneration: () => undefined,
    signal: new AbortController().signal,
  });
  return { writer, problems };
}

describe("the status of a pod in the API", () => {
  it("clears the reason of a condition when its status changes, and needs no further patch", async () => {
    const provider = new ReportingProvider();
    await using running = await nodeWith(cluster, provider);
    const { namespace, uid } = await runningPod(cluster, { node: running.name });
    const unready = { reason: "ContainersNotReady", message: "containers with unready status" };
    provider.tell(uid, { conditions: [{ type: "Ready", status: "False", ...unready }] });
    await podsUntil(cluster, namespace, ([pod]) => ready(pod)?.reason === unready.reason);
    provider.tell(uid, {});
    const [pod] = await podsUntil(cluster, namespace, ([each]) => isRunning(each));
    assert.ok(pod);
    assert.deepEqual([ready(pod)?.reason, ready(pod)?.message], [undefined, undefined]);
    assert.equal(statusPatch(pod, provider.statuses.get(uid) ?? {}), undefined);
  });

  it("has everything except the container statuses that the API server refuses", async () => {
    const provider = new ReportingProvider();
    await using running = await nodeWith(cluster, provider);
    const spec = { restartPolicy: "OnFailure" };
    const { namespace, uid } = await runningPod(cluster, { node: running.name, spec });
    const containers = (state: ContainerStatus["state"]): ContainerStatus[] => [
      {
        name: "main",
        image: "x",
        imageID: "",
        ready: false,
        restartCount: 0,
        ...(state && { state }),
      },
    ];
    const completed = { terminated: { exitCode: 0, containerID: "test://1" } };
    provider.tell(uid, { containerStatuses: containers(completed) });
    await podsUntil(
      cluster,
      namespace,
      ([pod]) => pod?.status?.containerStatuses?.[0]?.state?.terminated !== undefined,
    );
    // With this restart policy, a container that has completed must not wait again.
    provider.tell(uid, {
      podIP: "",
      podIPs: [],
      conditions: [{ type: "Ready", status: "False", reason: "CellLost" }],
      containerStatuses: containers({ waiting: { reason: "ContainerCreating" } }),
    });
    const [pod] = await podsUntil(cluster, namespace, ([each]) => ready(each)?.status === "False");
    assert.equal(pod?.status?.podIP, undefined);
    assert.equal(pod?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode, 0);
  });

  it("has a terminal phase, reason and exit codes although another field is refused", async () => {
    const provider = new ReportingProvider();
    await using running = await nodeWith(cluster, provider);
    const { namespace, uid } = await runningPod(cluster, { node: running.name });
    provider.tell(uid, {
      phase: "Failed",
      reason: "Broken",
      qosClass: "Guaranteed", // it has no requests and limits
      containerStatuses: [
        {
          name: "main",
          image: "x",
          imageID: "",
          ready: false,
          restartCount: 0,
          state: { terminated: { exitCode: 42 } },
        },
      ],
    });
    const [pod] = await podsUntil(cluster, namespace, ([each]) => each?.status?.phase === "Failed");
    assert.equal(pod?.status?.reason, "Broken");
    assert.equal(pod.status.containerStatuses?.[0]?.state?.terminated?.exitCode, 42);
  });

  it("is not written to another pod of the same name, and is not reported as the provider's failure", async () => {
    const namespace = await cluster.plane.createNamespace();
    const node = uniqueNodeName(); // it is not run by any process
    const first = await createPod(cluster, { namespace, node });
    await cluster.admin.delete(paths.pods(namespace, "web"), { graceSeconds: 0 });
    await createPod(cluster, { namespace, node });
    const { writer, problems } = writerFor(first);
    writer.write({ phase: "Running", message: "late" });
    await writer.idle();
    const second = await cluster.admin.get<Pod>(paths.pods(namespace, "web"));
    assert.equal(second.status?.message, undefined);
    assert.deepEqual(problems, []);
  });

  it("changes nothing of an end that another process wrote meanwhile", async () => {
    const namespace = await cluster.plane.createNamespace();
    const seen = await createPod(cluster, { namespace, node: uniqueNodeName() });
    const path = paths.pods(namespace, "web", "status");
    await cluster.admin.patch(path, { status: { phase: "Succeeded" } }, "merge");
    const { writer, problems } = writerFor(seen);
    writer.write({ phase: "Running", message: "late" });
    await writer.idle();
    const { status } = await cluster.admin.get<Pod>(paths.pods(namespace, "web"));
    assert.deepEqual([status?.phase, status?.message], ["Succeeded", undefined]);
    assert.deepEqual(problems, []);
  });

  it("is written to a pod that another client has changed meanwhile", async () => {
    const namespace = await cluster.plane.createNamespace();
    const seen = await createPod(cluster, { namespace, node: uniqueNodeName() });
    await cluster.admin.patch(paths.pods(namespace, "web"), theirs, "merge");
    const { writer, problems } = writerFor(seen);
    writer.write({ phase: "Running", message: "late" });
    await writer.idle();
    const { metadata, status } = await cluster.admin.get<Pod>(paths.pods(namespace, "web"));
    assert.deepEqual([status?.phase, status?.message], ["Running", "late"]);
    assert.equal(metadata.annotations?.["theirs"], "yes");
    assert.deepEqual(problems, []);
  });
});
