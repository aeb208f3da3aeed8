// The kubelet's words, as of Kubernetes 1.34 (pkg/kubelet/eviction/helpers.go).
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { container, desiredPod } from "../../test/desired-pod.ts";
import {
  exceededLimit,
  shortage,
  shortageMessage,
  smallestLimit,
  type PodUsage,
} from "./eviction.ts";

const MiB = 2 ** 20;
const GiB = 2 ** 30;

function limited(overrides: Partial<DesiredPod> = {}): DesiredPod {
  const limit = { bytes: 2 * MiB, text: "2Mi" };
  const request = { bytes: MiB, text: "1Mi" };
  return desiredPod({
    containers: [container("web", { ephemeralStorage: { limit, request } }), container("free")],
    ephemeralStorageLimit: { bytes: 4 * MiB, text: "4Mi" },
    volumes: [
      { name: "memory", kind: "emptyDir", medium: "Memory", sizeLimitBytes: 1, sizeLimit: "1" },
      { name: "endless", kind: "emptyDir", sizeLimitBytes: 0, sizeLimit: "0" },
      { name: "data", kind: "emptyDir", sizeLimitBytes: 1e6, sizeLimit: "1M" },
    ],
    ...overrides,
  });
}

function usage(amounts: { data?: number; web?: number; free?: number }): PodUsage {
  const { data = 0, web = 0, free = 0 } = amounts;
  const volumes = new Map([
    ["data", data],
    ["endless", 100],
    ["memory", 100],
  ]);
  const containers = new Map(Object.entries({ web, free }));
  return { volumes, containers, totalBytes: data + web + free };
}

describe("exceededLimit()", () => {
  it("reports an exceeded limit of a volume first, then of the pod, then of a container, with the kubelet's messages", () => {
    const of = (amounts: Parameters<typeof usage>[0]) => exceededLimit(limited(), usage(amounts));
    assert.equal(of({ data: 1e6, web: 2 * MiB, free: MiB }), undefined);
    const volume = 'Usage of EmptyDir volume "data" exceeds the limit "1M". ';
    assert.equal(of({ data: 1e6 + 1, web: 5 * MiB }), volume);
    const pod = "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ";
    assert.equal(of({ free: 4 * MiB + 1 }), pod);
    const one = 'Container web exceeded its local ephemeral storage limit "2Mi". ';
    assert.equal(of({ web: 2 * MiB + 1 }), one);
  });

  it("spares pods that are critical, and those without a limit", () => {
    const all = usage({ data: GiB, web: GiB });
    assert.equal(exceededLimit(limited({ isCritical: true }), all), undefined);
    assert.equal(exceededLimit(desiredPod(), all), undefined);
  });
});

describe("smallestLimit()", () => {
  it("is that of a volume on the disk, a container or the pod", () => {
    assert.equal(smallestLimit(limited()), 1e6);
    assert.equal(smallestLimit(limited({ volumes: [] })), 2 * MiB);
    assert.equal(smallestLimit(limited({ isCritical: true })), undefined);
    assert.equal(smallestLimit(desiredPod()), undefined);
  });
});

describe("shortage()", () => {
  const room = { sizeBytes: 5 * GiB, freeBytes: GiB, inodes: 320_000, freeInodes: 100_000 };

  it("begins below a tenth of the bytes, or a twentieth of the inodes", () => {
    assert.equal(shortage(room), undefined);
    const full = { ...room, freeBytes: 100 * MiB };
    // A tenth as a 32-bit float is slightly more.
    const threshold = "536870920";
    const bytes = { resource: "ephemeral-storage", threshold, available: "100Mi" };
    assert.deepEqual(shortage(full), bytes);
    const crowded = { ...room, freeInodes: 12_000 };
    const inodes = { resource: "inodes", threshold: "16000", available: "12k" };
    assert.deepEqual(shortage(crowded), inodes);
  });

  it("is reported with the containers that take more than they asked for", () => {
    const low = { threshold: "512Mi", available: "100Mi" };
    const used = usage({ web: 3 * MiB, free: 4096 });
    assert.equal(
      shortageMessage({ ...low, resource: "ephemeral-storage" }, limited(), used),
      "The node was low on resource: ephemeral-storage. Threshold quantity: 512Mi, available: 100Mi. " +
        "Container web was using 3Mi, request is 1Mi, has larger consumption of ephemeral-storage. " +
        "Container free was using 4Ki, request is 0, has larger consumption of ephemeral-storage. ",
    );
    assert.equal(
      shortageMessage({ ...low, resource: "inodes" }, limited(), used),
      "The node was low on resource: inodes. Threshold quantity: 512Mi, available: 100Mi. ",
    );
  });
});
