import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeDesiredPod } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { desiredPod } from "./desired-pod.ts";

describe("desiredPod()", () => {
  const context = {
    addresses: { podIPs: ["10.0.0.7"], hostIPs: ["192.0.2.1"] },
    nodeIp: "192.0.2.2",
    dns: {
      clusterDns: [],
      clusterDomain: "cluster.local",
      hostNameservers: [],
      hostSearchDomains: [],
    },
    registries: [],
    generation: 1,
  };

  function desired(spec: Partial<Pod["spec"]>, ended: readonly string[] = []) {
    const pod = podWith({ spec });
    const files = new Map([["settings", [{ path: "a", data: Buffer.from("x"), mode: 0o600 }]]]);
    const resolved = { pod, env: new Map(), lateEnv: new Map(), files, pullSecrets: [] };
    return desiredPod(resolved, { ...context, ended: new Set(ended) });
  }

  it("passes on what decides what the pod may have of its cell", () => {
    const pod = desired({
      resources: { limits: { cpu: "1" }, requests: { memory: "1Ki" } },
      overhead: { cpu: "10m" },
      priority: 2_000_001_000,
      priorityClassName: "system-node-critical",
    });
    assert.deepEqual(pod.resources, { cpuMilliLimit: 1000, memoryBytesRequest: 1024 });
    assert.deepEqual(pod.overhead, { cpuMilli: 10, memoryBytes: 0 });
    assert.equal(pod.isNodeCritical, true);
    assert.deepEqual(desired({}).qosClass, "BestEffort");
    assert.deepEqual([desired({}).resources, desired({}).isNodeCritical], [undefined, undefined]);
  });

  it("passes what concerns the whole pod on", () => {
    const sysctls = [{ name: "net.ipv4.tcp_syncookies", value: "0" }];
    const all: Readonly<Record<string, unknown>> = desired({
      restartPolicy: "OnFailure",
      terminationGracePeriodSeconds: 7,
      activeDeadlineSeconds: 60,
      shareProcessNamespace: true,
      hostPID: true,
      hostIPC: true,
      hostname: "named",
      securityContext: { fsGroup: 2000, sysctls },
    });
    const expected = {
      restartPolicy: "OnFailure",
      terminationGracePeriodSeconds: 7,
      activeDeadlineSeconds: 60,
      shareProcessNamespace: true,
      hostPID: true,
      hostIPC: true,
      hostname: "named",
      fsGroup: 2000,
      sysctls,
      podIp: "10.0.0.7",
    };
    for (const [name, value] of Object.entries(expected)) assert.deepEqual(all[name], value, name);
    const plain = desired({ hostNetwork: true });
    assert.deepEqual([plain.restartPolicy, plain.terminationGracePeriodSeconds], ["Always", 30]);
    assert.deepEqual([plain.hostNetwork, plain.podIp], [true, undefined]);
  });

  it("passes periods on that an agent can read, however long they are", () => {
    const long = Number("9223372036854775807");
    const exec = { command: ["true"] };
    const main = {
      name: "main",
      livenessProbe: { exec, terminationGracePeriodSeconds: long },
      lifecycle: { preStop: { sleep: { seconds: long } } },
    };
    const pod = desired({ terminationGracePeriodSeconds: long, containers: [main] });
    const { terminationGracePeriodSeconds, containers } = decodeDesiredPod(pod, "pod");
    const seconds = [
      terminationGracePeriodSeconds,
      containers[0]?.livenessProbe?.terminationGracePeriodSeconds,
      containers[0]?.preStop?.sleepSeconds,
    ];
    assert.deepEqual(seconds, [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1]);
  });

  it("leaves containers out that have ended for good, but no init containers", () => {
    const containers = [{ name: "a" }, { name: "b" }];
    const initContainers = [{ name: "first" }];
    const ephemeralContainers = [{ name: "debug" }];
    const lists = desired({ containers, initContainers, ephemeralContainers }, [
      "a",
      "first",
      "debug",
    ]);
    assert.deepEqual(
      [lists.initContainers, lists.containers, lists.ephemeralContainers ?? []].map((list) =>
        list.map(({ name }) => name),
      ),
      [["first"], ["b"], []],
    );
  });

  it("takes as many ephemeral containers as a report can have, the first ones that go on", () => {
    const ephemeralContainers = Array.from({ length: 1002 }, (_, at) => ({ name: `debug-${at}` }));
    const { ephemeralContainers: taken = [] } = desired({ ephemeralContainers }, ["debug-0"]);
    assert.deepEqual([taken.length, taken.at(-1)?.name], [1000, "debug-1000"]);
  });

  it("has the cell keep the files of a volume that are not known", () => {
    const pod = podWith({ spec: { containers: [], volumes: [{ name: "c", configMap: {} }] } });
    const maps = { env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
    const missingFiles = new Set(["c"]);
    const { volumes } = desiredPod({ pod, ...maps, missingFiles }, context);
    assert.deepEqual(volumes, [{ name: "c", kind: "files", keepsFiles: true }]);
  });

  it("turns volumes into files, empty directories and paths of the cell", () => {
    const { volumes } = desired({
      volumes: [
        { name: "settings", configMap: { name: "x" } },
        { name: "fast", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
        { name: "log", hostPath: { path: "/var/log", type: "Directory" } },
        { name: "models", image: { reference: "registry.test/models" } },
        { name: "old", image: { reference: "registry.test/old", pullPolicy: "Never" } },
      ],
    });
    assert.deepEqual(volumes, [
      { name: "settings", kind: "files", files: [{ path: "a", data: "eA==", mode: 0o600 }] },
      {
        name: "fast",
        kind: "emptyDir",
        medium: "Memory",
        sizeLimitBytes: 2 ** 20,
        sizeLimit: "1Mi",
      },
      { name: "log", kind: "hostPath", hostPath: "/var/log", hostPathType: "Directory" },
      {
        name: "models",
        kind: "image",
        image: "registry.test/models",
        imagePullPolicy: "Always",
      },
      { name: "old", kind: "image", image: "registry.test/old", imagePullPolicy: "Never" },
    ]);
  });
});
