import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, createEventRecorder, loadKubeConfig, paths } from "@kip/k8s-client";

describe("createEventRecorder()", () => {
  it("does not warn of an event whose namespace is being deleted, or was never there", async () => {
    await using plane = await sharedControlPlane();
    const client = createApiClient(await loadKubeConfig({ path: plane.kubeconfigPath }), {
      userAgent: "test/1",
      logger: silentLogger,
      clock: systemClock,
    });
    const namespace = await plane.createNamespace();
    const held = { name: "held", namespace, finalizers: ["example.test/hold"] };
    await client.create(paths.configMaps(namespace), { metadata: held });
    await client.delete(paths.namespaces(namespace));
    const lines: string[] = [];
    const recorder = createEventRecorder({
      client,
      component: "kubelet",
      host: "node",
      logger: createLogger({ level: "debug", write: (line) => void lines.push(line) }),
      clock: systemClock,
    });
    const about = { apiVersion: "v1", kind: "Pod", name: "web", uid: "u" };
    const event = { type: "Normal", reason: "Killing", message: "Stopping" } as const;
    for (const each of [namespace, "never-there"])
      recorder.record({ ...about, namespace: each, uid: each }, event);
    await recorder.flush();
    const levels = lines.map((line) => (JSON.parse(line) as { readonly level: string }).level);
    assert.deepEqual(levels, ["debug", "debug"], lines.join("\n"));
    const free = { metadata: { finalizers: null } };
    await client.patch(paths.configMaps(namespace, "held"), free, "merge");
    client.close();
  });
});
