// Behaviour on which pods may rely because all kubelets have it, with an in-memory runtime.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodReport } from "@kip/agent-api";
import { Cell } from "./cell.ts";
import { container, desiredPod } from "./desired-pod.ts";
import { report } from "./test-cell.ts";

const limit = { timeout: 30_000 };

function starts(cell: Cell): readonly string[] {
  return cell.runtime.calls.filter((call) => call.startsWith("start"));
}

describe("volumes", limit, () => {
  it("with files of ConfigMaps and Secrets are read-only, whatever the mount says", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const mounts = [
      { name: "config", mountPath: "/config", readOnly: false },
      { name: "scratch", mountPath: "/scratch" },
    ];
    const volumes = [
      { name: "config", kind: "files" as const, files: [] },
      { name: "scratch", kind: "emptyDir" as const },
    ];
    await client.putPod(desiredPod({ containers: [container("web", { mounts })], volumes }));
    await report(client, (one) => one.phase === "Running");
    const [spec] = cell.runtime.specs.values();
    const isReadOnly = (path: string) =>
      spec?.mounts.find(({ destination }) => destination === path)?.readOnly;
    assert.deepEqual([isReadOnly("/config"), isReadOnly("/scratch")], [true, false]);
  });
});

/** Makes hooks run until `done`, or until they are ended. */
function longHook(cell: Cell) {
  const done = Promise.withResolvers<number>();
  const begun = Promise.withResolvers<void>();
  cell.runtime.execute = async (_options, _streams, signal) => {
    signal.addEventListener("abort", () => done.resolve(1));
    begun.resolve();
    return await done.promise;
  };
  return { begun, done };
}

describe("a postStart hook", limit, () => {
  const hook = { exec: { command: ["hook"] } };

  it("comes before probes and readiness", async () => {
    await using cell = await Cell.start();
    const { begun, done } = longHook(cell);
    const client = await cell.connect();
    await client.putPod(desiredPod({ containers: [container("web", { postStart: hook })] }));
    await begun.promise;
    const during = await report(client, (one) => one.containers[0]?.running !== undefined);
    assert.deepEqual([during.containers[0]?.ready, during.containers[0]?.started], [false, false]);
    done.resolve(0);
    await report(client, (one) => one.containers[0]?.ready === true);
  });

  it("of a sidecar holds up what starts after it", async () => {
    await using cell = await Cell.start();
    const { begun, done } = longHook(cell);
    const client = await cell.connect();
    const side = container("side", { restartPolicy: "Always", postStart: hook });
    await client.putPod(desiredPod({ initContainers: [side] }));
    await begun.promise;
    await report(client, (one) => one.initContainers[0]?.running !== undefined);
    assert.deepEqual(starts(cell), ["start side"]);
    done.resolve(0);
    await report(client, (one) => one.phase === "Running");
    assert.deepEqual(starts(cell), ["start side", "start web"]);
  });
});

describe("a changed image", limit, () => {
  for (const restartPolicy of ["Never", "OnFailure"] as const)
    it(`replaces a running container, and wakes no finished one, with restartPolicy ${restartPolicy}`, async () => {
      await using cell = await Cell.start();
      const client = await cell.connect();
      const both = (image: string) => [container("done", { image }), container("web", { image })];
      await client.putPod(desiredPod({ restartPolicy, containers: both("registry.test/a:1") }));
      await report(client, (one) => one.containers.every(({ running }) => running));
      cell.runtime.exit("done", 0);
      await report(client, (one) => one.containers[0]?.terminated !== undefined);
      const containers = both("registry.test/a:2");
      await client.putPod(desiredPod({ restartPolicy, containers, generation: 2 }));
      const replaced = (one: PodReport): boolean =>
        one.containers[1]?.restartCount === 1 && one.containers[1].running !== undefined;
      const seen = await report(client, (one) => replaced(one) || one.phase !== "Running");
      assert.equal(seen.phase, "Running");
      assert.equal(seen.containers[0]?.terminated?.exitCode, 0);
      assert.deepEqual(starts(cell).toSorted(), ["start done", "start web", "start web"]);
    });
});

describe("a liveness probe", limit, () => {
  it("that fails restarts a container that ends well, unless the pod must not restart", async () => {
    const livenessProbe = { exec: { command: ["probe"] }, periodSeconds: 1, failureThreshold: 1 };
    for (const [restartPolicy, phase] of [
      ["OnFailure", "Running"],
      ["Never", "Succeeded"],
    ] as const) {
      await using cell = await Cell.start();
      cell.runtime.execute = async () => 1;
      cell.runtime.exitCodes = { SIGTERM: 0 };
      const client = await cell.connect();
      const containers = [container("web", { livenessProbe })];
      await client.putPod(desiredPod({ restartPolicy, containers }));
      const seen = await report(
        client,
        (one) => one.containers[0]?.restartCount === 1 || /Succeeded|Failed/.test(one.phase),
      );
      assert.equal(seen.phase, phase);
    }
  });
});

describe("a probe's own grace period", limit, () => {
  it("is that of the container which it has killed", async () => {
    await using cell = await Cell.start();
    cell.runtime.execute = async () => 1;
    cell.runtime.deadly = ["SIGKILL"];
    const client = await cell.connect();
    const livenessProbe = {
      exec: { command: ["probe"] },
      failureThreshold: 1,
      terminationGracePeriodSeconds: 1,
    };
    const containers = [container("web", { livenessProbe })];
    await client.putPod(desiredPod({ containers, terminationGracePeriodSeconds: 600 }));
    const seen = await report(client, (one) => one.containers[0]?.restartCount === 1);
    assert.equal(seen.containers[0]?.lastTerminated?.exitCode, 137);
    await client.deletePod(0);
  });

  it("ends with that of the pod, if the pod is deleted meanwhile", async () => {
    await using cell = await Cell.start();
    cell.runtime.execute = async () => 1;
    cell.runtime.deadly = ["SIGKILL"];
    const client = await cell.connect();
    const livenessProbe = {
      exec: { command: ["probe"] },
      failureThreshold: 1,
      terminationGracePeriodSeconds: 600,
    };
    await client.putPod(desiredPod({ containers: [container("web", { livenessProbe })] }));
    await report(client, (one) => one.events.some(({ reason }) => reason === "Killing"));
    await client.deletePod(0);
    const done = await report(client, (one) => one.phase === "Failed", { timeoutMs: 5000 });
    assert.equal(done.containers[0]?.terminated?.exitCode, 137);
  });
});

describe("an ephemeral container", limit, () => {
  it("sees the processes of the container that it is for", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const debug = (name: string, targetContainer: string) => container(name, { targetContainer });
    const pod = desiredPod();
    await client.putPod(pod);
    await report(client, (one) => one.phase === "Running");
    const ephemeralContainers = [debug("good", "web"), debug("bad", "other")];
    await client.putPod({ ...pod, ephemeralContainers, generation: 2 });
    const seen = await report(
      client,
      ({ ephemeralContainers: [good, bad], events }) =>
        good?.running !== undefined &&
        bad?.waiting?.message !== undefined &&
        events.some(({ reason }) => reason === "Failed"),
    );
    const message = "unable to find target container other";
    const reason = "CreateContainerConfigError";
    assert.deepEqual(seen.ephemeralContainers[1]?.waiting, { reason, message });
    const failed = seen.events.find((event) => event.reason === "Failed");
    assert.equal(failed?.message, `Error: ${message}`);
    const namespaces = [...cell.runtime.specs.values()].map(({ sandbox }) => sandbox.pidNamespace);
    assert.deepEqual(namespaces, [undefined, "/proc/1/ns/pid"]);
  });
});

describe("a container that is being stopped", limit, () => {
  it("stays ready until it ends or says otherwise, and is not killed for a probe", async () => {
    await using cell = await Cell.start();
    cell.runtime.deadly = ["SIGKILL"];
    let isReady = true;
    cell.runtime.execute = async ({ command }) => (command[0] === "ready" && isReady ? 0 : 1);
    const client = await cell.connect();
    const often = { periodSeconds: 1, failureThreshold: 1 };
    const probed = container("probed", {
      readinessProbe: { exec: { command: ["ready"] }, ...often },
      livenessProbe: { exec: { command: ["alive"] }, ...often, initialDelaySeconds: 2 },
    });
    await client.putPod(desiredPod({ containers: [container("plain"), probed] }));
    await report(client, (one) => one.containers.every(({ ready }) => ready));
    await client.deletePod(600);
    const stopping = await report(
      client,
      (one) => one.events.filter(({ reason }) => reason === "Killing").length === 2,
    );
    assert.deepEqual(
      stopping.containers.map(({ ready }) => ready),
      [true, true],
    );
    isReady = false;
    const seen = await report(client, (one) => one.containers[1]?.ready === false);
    assert.equal(seen.containers[0]?.ready, true);
    assert.ok(!seen.events.some(({ message }) => message.startsWith("Liveness")));
    await client.deletePod(0);
    await report(client, (one) => one.phase === "Failed");
  });
});

describe("a stop signal that does not exist", limit, () => {
  it("leads to SIGKILL, not to attempts without end", async () => {
    await using cell = await Cell.start();
    cell.runtime.unknownSignals = ["SIGTERM"];
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await client.deletePod(30);
    const done = await report(client, (one) => one.phase === "Failed");
    assert.equal(done.containers[0]?.terminated?.exitCode, 137);
    assert.deepEqual(cell.runtime.calls.slice(2), ["SIGTERM web", "SIGKILL web"]);
  });
});
