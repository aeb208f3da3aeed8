import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { paths } from "@kip/k8s-client";
import type { Event, Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { eventually } from "@kip/testing";
import { VirtualKubeletError } from "@kip/virtual-kubelet";
import { resolvedWith } from "@kip/virtual-kubelet/testing";
import { until } from "./eventually.ts";
import {
  createPod,
  isRunning,
  nodeWith,
  observedGeneration,
  podsUntil,
  uniqueNodeName,
  useCluster,
  variants,
  waitForCall,
} from "./support/cluster.ts";

const cluster = useCluster();

for (const { name: variant, make } of variants)
  describe(`pods of a node, ${variant} provider`, () => {
    it("runs a pod, writes its status once, and removes it with its object (L1, P4, P7)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const { metadata } = await createPod(cluster, { namespace, node: running.name });
      const uid = metadata?.uid ?? "";
      const [pod] = await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      assert.equal(pod?.status?.podIP, "198.51.100.7");
      assert.equal(pod?.status?.hostIP, "192.0.2.1");
      assert.equal(pod?.status?.qosClass, "BestEffort");
      assert.equal(memory.count("apply", uid), 1);
      await cluster.admin.patch(
        paths.pods(namespace, "web", "status"),
        { status: { conditions: [{ type: "x", status: "True" }] } },
        "strategic",
      );
      await podsUntil(cluster, namespace, ([each]) => each?.status?.conditions?.length === 6);
      assert.equal(memory.count("apply", uid), 1, "a change of status alone does not count (P3)");
      await cluster.admin.patch(
        paths.pods(namespace, "web"),
        { metadata: { labels: { a: "b" } } },
        "merge",
      );
      await cluster.admin.delete(paths.pods(namespace, "web"));
      await podsUntil(cluster, namespace, (pods) => pods.length === 0);
      assert.equal(memory.count("remove", uid), 1);
      assert.equal(memory.pods.size, 0);
    });

    it("deletes the object although the provider does not know the pod (L2), and repeats a failing removal (L3)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, { intervals: { podBackoffMs: 20 } });
      const namespace = await cluster.plane.createNamespace();
      const lost = await createPod(cluster, { namespace, node: running.name, name: "lost" });
      const stuck = await createPod(cluster, { namespace, node: running.name, name: "stuck" });
      await podsUntil(cluster, namespace, (pods) => pods.length === 2 && pods.every(isRunning));
      memory.pods.delete(lost.metadata?.uid ?? "");
      await cluster.admin.delete(paths.pods(namespace, "lost"));
      await podsUntil(cluster, namespace, (pods) => pods.length === 1);
      memory.failures.remove.push(new Error("busy"), new Error("busy"));
      await cluster.admin.delete(paths.pods(namespace, "stuck"));
      await podsUntil(cluster, namespace, (pods) => pods.length === 0);
      assert.equal(memory.count("remove", stuck.metadata?.uid), 3);
    });

    it("applies changes (P2, P6, L8)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const { metadata } = await createPod(cluster, { namespace, node: running.name });
      const uid = metadata?.uid ?? "";
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      const applied = waitForCall(memory, "apply");
      await cluster.admin.patch(
        paths.pods(namespace, "web"),
        { spec: { containers: [{ name: "main", image: "example.test/web:2" }] } },
        "strategic",
      );
      await applied;
      await podsUntil(
        cluster,
        namespace,
        ([pod]) => observedGeneration(pod) >= (pod?.metadata?.generation ?? 1),
      );
      assert.equal(memory.pods.get(uid)?.pod.spec.containers[0]?.image, "example.test/web:2");
    });

    it("waits for a missing Secret, reports that, and starts as soon as it exists (K7, K9)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, {
        intervals: { podBackoffMs: 600_000 },
      });
      const namespace = await cluster.plane.createNamespace();
      const secretKeyRef = { name: "token", key: "value" };
      const { metadata } = await createPod(cluster, {
        namespace,
        node: running.name,
        container: { env: [{ name: "TOKEN", valueFrom: { secretKeyRef } }] },
      });
      const [pod] = await podsUntil(
        cluster,
        namespace,
        ([each]) => each?.status?.containerStatuses?.[0]?.state?.waiting !== undefined,
      );
      const waiting = pod?.status?.containerStatuses?.[0]?.state?.waiting;
      assert.equal(waiting?.reason, "CreateContainerConfigError");
      assert.equal(waiting?.message, 'secret "token" not found');
      await until<Event>({
        client: cluster.admin,
        path: paths.events(namespace),
        check: (events) =>
          events.some(
            ({ reason, involvedObject }) =>
              reason === "MandatorySecretNotFound" && involvedObject.uid === metadata?.uid,
          ),
      });
      assert.equal(memory.pods.size, 0);
      await cluster.admin.create(paths.secrets(namespace), {
        metadata: { name: "token" },
        stringData: { value: "s3cret" },
      });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      const env = memory.pods.get(metadata?.uid ?? "")?.env.get("main");
      assert.deepEqual(
        env?.find(({ name }) => name === "TOKEN"),
        { name: "TOKEN", value: "s3cret" },
      );
      assert.ok(env?.some(({ name }) => name === "KUBERNETES_SERVICE_HOST"));
    });

    it("gives a pod its token and the cluster's CA, and follows a changed ConfigMap", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      await cluster.admin.create(paths.configMaps(namespace), {
        metadata: { name: "settings" },
        data: { color: "red" },
      });
      const { metadata } = await createPod(cluster, {
        namespace,
        node: running.name,
        spec: { volumes: [{ name: "settings", configMap: { name: "settings" } }] },
      });
      const uid = metadata?.uid ?? "";
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      const files = memory.pods.get(uid)?.files;
      const text = (volume: string | undefined, path: string): string | undefined => {
        const file = memory.pods
          .get(uid)
          ?.files.get(volume ?? "")
          ?.find((each) => each.path === path);
        return file && Buffer.from(file.data).toString();
      };
      const projected = [...(files?.keys() ?? [])].find((name) =>
        name.startsWith("kube-api-access"),
      );
      assert.equal(text(projected, "namespace"), namespace);
      assert.match(text(projected, "ca.crt") ?? "", /BEGIN CERTIFICATE/);
      assert.match(text(projected, "token") ?? "", /^ey/);
      assert.ok((memory.pods.get(uid)?.refreshAt ?? 0) > Date.now());
      assert.equal(text("settings", "color"), "red");
      const applied = waitForCall(memory, "apply");
      await cluster.admin.patch(
        paths.configMaps(namespace, "settings"),
        { data: { color: "blue" } },
        "merge",
      );
      await applied;
      assert.equal(text("settings", "color"), "blue");
    });

    it("gives a recreated pod of the same name a worker of its own (P12)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const first = await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      await cluster.admin.delete(paths.pods(namespace, "web"), { graceSeconds: 0 });
      const second = await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      assert.notEqual(first.metadata?.uid, second.metadata?.uid);
      await eventually(() => memory.pods.size === 1);
      assert.ok(memory.pods.has(second.metadata?.uid ?? ""));
    });

    it("stops a pod in time when its deletion is forced meanwhile (K5)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const { metadata } = await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      const held = Promise.withResolvers<void>();
      memory.gate = ({ call }) => (call === "remove" ? held.promise : Promise.resolve());
      const removing = waitForCall(memory, "remove");
      await cluster.admin.delete(paths.pods(namespace, "web"));
      await removing;
      await cluster.admin.delete(paths.pods(namespace, "web"), { graceSeconds: 0 });
      await eventually(() => memory.pods.size === 0);
      held.resolve();
      assert.equal(memory.count("removeUnknown", metadata?.uid), 1);
    });

    it("fails a pod that can never run, with the provider's reason", async () => {
      const { memory, provider } = make();
      memory.failures.apply.push(
        new VirtualKubeletError("VK_INVALID_POD", "Cannot run it: too big", {
          reason: "OutOfcpu",
        }),
      );
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: running.name });
      const [pod] = await podsUntil(
        cluster,
        namespace,
        ([each]) => each?.status?.phase === "Failed",
      );
      assert.equal(pod?.status?.reason, "OutOfcpu");
      assert.equal(pod?.status?.message, "Pod was rejected: Cannot run it: too big");
    });

    it("repeats a failed apply, and does not delay other pods by it", async () => {
      const { memory, provider } = make();
      memory.failures.apply.push(new Error("cloud is busy"));
      await using running = await nodeWith(cluster, provider, {
        intervals: { podBackoffMs: 3000 },
      });
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: running.name, name: "unlucky" });
      await podsUntil(cluster, namespace, ([pod]) => pod?.status?.reason === "ProviderFailed");
      await createPod(cluster, { namespace, node: running.name, name: "lucky" });
      await podsUntil(cluster, namespace, (pods) =>
        pods.some((pod) => pod.metadata.name === "lucky" && isRunning(pod)),
      );
      const pods = await podsUntil(
        cluster,
        namespace,
        (all) => all.length === 2 && all.every(isRunning),
      );
      assert.ok(pods.every(({ status }) => status?.reason === undefined));
      assert.equal(memory.calls.length, 3);
    });

    it("leaves running and finished pods alone after a restart, and removes unknown ones (L4, L6, L7)", async () => {
      const { memory, provider } = make();
      const namespace = await cluster.plane.createNamespace();
      const nodeName = uniqueNodeName();
      const done = { name: "done", namespace, node: nodeName };
      const first = await nodeWith(cluster, provider, { nodeName });
      const finished = await createPod(cluster, done);
      await createPod(cluster, { namespace, node: nodeName });
      await podsUntil(cluster, namespace, (pods) => pods.length === 2 && pods.every(isRunning));
      memory.report(finished.metadata?.uid ?? "", "Succeeded");
      const before = await podsUntil(cluster, namespace, (pods) =>
        pods.some(({ status }) => status?.phase === "Succeeded"),
      );
      await first.node[Symbol.asyncDispose]();
      memory.calls.length = 0;
      const stranger = podWith({ metadata: { uid: "stranger", name: "stranger", namespace } });
      memory.pods.set("stranger", resolvedWith(stranger));
      await using _second = await nodeWith(cluster, provider, { nodeName });
      assert.equal(memory.count("removeUnknown"), 1);
      assert.ok(!memory.pods.has("stranger"));
      await eventually(() => memory.count("apply") === 1);
      assert.equal(memory.count("apply", finished.metadata?.uid), 0);
      assert.equal(memory.count("remove"), 0);
      const afterwards = await podsUntil(cluster, namespace, (pods) => pods.length === 2);
      const versions = (pods: readonly Pod[]): (string | undefined)[] =>
        pods
          .map(({ metadata }) => metadata?.resourceVersion)
          .sort((a = "", b = "") => a.localeCompare(b));
      assert.deepEqual(versions(afterwards), versions(before), "nothing was written");
    });

    it("never removes a pod because a list failed", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      memory.failures.list.push(new Error("cloud away"));
      await running.node.sweep();
      assert.equal(memory.count("removeUnknown"), 0);
      memory.pods.clear();
      const applied = waitForCall(memory, "apply");
      await running.node.sweep();
      await applied; // a pod that the provider lost is applied again
    });

    it("completes a deletion that began while it was stopped (L5)", async () => {
      const { memory, provider } = make();
      const namespace = await cluster.plane.createNamespace();
      const nodeName = uniqueNodeName();
      const first = await nodeWith(cluster, provider, { nodeName });
      await createPod(cluster, { namespace, node: nodeName });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      await first.node[Symbol.asyncDispose]();
      await cluster.admin.delete(paths.pods(namespace, "web"));
      await using _second = await nodeWith(cluster, provider, { nodeName });
      await podsUntil(cluster, namespace, (pods) => pods.length === 0);
      assert.equal(memory.pods.size, 0);
    });
  });
