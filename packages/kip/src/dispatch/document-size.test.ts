import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { maxBodyBytes } from "@kip/agent-api";
import { podWith } from "@kip/k8s-types/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { desiredPod } from "./desired-pod.ts";
import { checkPodSize } from "./document-size.ts";

function resolvedOf(
  pod: Parameters<typeof podWith>[0],
  others: Partial<ResolvedPod> = {},
): ResolvedPod {
  const none = { env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
  return { pod: podWith(pod), ...none, ...others };
}

const tooLarge = { code: "POD_TOO_LARGE" };

describe("checkPodSize()", () => {
  it("counts the names of files before it makes a document of them", () => {
    const list = Array.from({ length: 240_000 }, (_, at) => ({
      path: `key${at}`,
      data: new Uint8Array(1),
      mode: 0o644,
    }));
    const volumes = [{ name: "v", configMap: { name: "m" } }];
    const pod = { spec: { containers: [{ name: "main", image: "x" }], volumes } };
    const resolved = resolvedOf(pod, { files: new Map([["v", list]]) });
    const before = process.threadCpuUsage().user;
    assert.throws(() => checkPodSize(resolved, {}), tooLarge);
    const took = process.threadCpuUsage().user - before;
    assert.ok(took < 150_000, `${took} µs`);
  });

  for (const fieldPath of ["status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"])
    it(`takes a pod with its ${fieldPath} in a subPathExpr, which none has before its cell`, () => {
      const env = [{ name: "IP", valueFrom: { fieldRef: { fieldPath } } }];
      const volumeMounts = [{ name: "data", mountPath: "/data", subPathExpr: "$(IP)" }];
      const containers = [{ name: "main", image: "x", env, volumeMounts }];
      const resolved = resolvedOf(
        { spec: { volumes: [{ name: "data", emptyDir: {} }], containers } },
        {
          env: new Map([["main", [{ name: "IP", value: "" }]]]),
          lateEnv: new Map([["main", new Map([["IP", fieldPath]])]]),
        },
      );
      checkPodSize(resolved, {});
    });

  it("takes no pod with a path that has no value, unless its container is held back anyway", () => {
    const volumeMounts = [{ name: "data", mountPath: "/data", subPathExpr: "$(NONE)" }];
    const containers = [{ name: "main", image: "x", volumeMounts }];
    const spec = { volumes: [{ name: "data", emptyDir: {} }], containers };
    const message = /NONE has no value$/;
    assert.throws(() => checkPodSize(resolvedOf({ spec }), {}), { code: "VK_UNRESOLVED", message });
    const missingEnv = new Map([["main", 'secret "s" not found']]);
    const both = { ...spec, containers: [...containers, { name: "other", image: "x" }] };
    checkPodSize(resolvedOf({ spec: both }, { missingEnv }), {});
  });

  it("takes no pod to a new machine that has run and lacks what it needs to start there", () => {
    const spec = { containers: [{ name: "main", image: "x" }] };
    const lacking = [
      { missingEnv: new Map([["main", 'secret "s" not found']]) },
      { missingFiles: new Set(["config"]) },
    ];
    for (const more of lacking)
      assert.throws(() => checkPodSize(resolvedOf({ spec }, more), {}), { code: "VK_UNRESOLVED" });
  });

  it("takes no pod to a new machine whose other containers have ended while one is held back", () => {
    const spec = { containers: ["done", "main", "other"].map((name) => ({ name, image: "x" })) };
    const missingEnv = new Map([["main", 'secret "s" not found']]);
    const resolved = resolvedOf({ spec }, { missingEnv });
    checkPodSize(resolved, { ended: new Set(["done"]) });
    assert.throws(() => checkPodSize(resolved, { ended: new Set(["done", "other"]) }), {
      code: "VK_UNRESOLVED",
      message: 'secret "s" not found',
    });
  });

  it("takes a pod that fits with the addresses of its cell, however often it names them", () => {
    const times = Math.floor(maxBodyBytes / 30);
    const containers = [{ name: "main", image: "x", args: ["$(IP)".repeat(times)] }];
    const others = {
      env: new Map([["main", [{ name: "IP", value: "" }]]]),
      lateEnv: new Map([["main", new Map([["IP", "status.podIP"]])]]),
    };
    checkPodSize(resolvedOf({ spec: { containers } }, others), {});
  });

  it("refuses too much content before it makes a document of it", () => {
    const file = {
      path: "a",
      data: Buffer.alloc(2 ** 20),
      get mode(): number {
        return assert.fail("was read");
      },
    };
    const list = Array.from({ length: 7 }, () => file);
    const volumes = [{ name: "all", configMap: { name: "a" } }];
    const files = new Map([["all", list]]);
    const resolved = resolvedOf({ spec: { volumes, containers: [] } }, { files });
    assert.throws(() => checkPodSize(resolved, {}), tooLarge);
  });

  const oneContainer = (container: object, value: string): ResolvedPod =>
    resolvedOf(
      { spec: { volumes: [], containers: [{ name: "main", image: "x", ...container }] } },
      { env: new Map([["main", [{ name: "B", value }]]]) },
    );
  const half = "x".repeat(maxBodyBytes / 2 - 10_000);
  const overBudget = { code: "VK_UNRESOLVED", message: /when it is expanded/ };

  it("hostile pod: makes no document of paths in volumes that are together larger than any", () => {
    const volumeMounts = Array.from({ length: 1000 }, (_, index) => ({
      name: "data",
      mountPath: `/${index}`,
      subPathExpr: "$(B)",
    }));
    assert.throws(() => checkPodSize(oneContainer({ volumeMounts }, half), {}), overBudget);
  });

  it("hostile pod: makes none of commands of many containers and probes that are together larger than any", () => {
    const env = [{ name: "B", value: half }];
    const exec = { command: ["$(B)"] };
    const probes = { livenessProbe: { exec }, readinessProbe: { exec }, startupProbe: { exec } };
    assert.throws(() => checkPodSize(oneContainer({ env, ...probes }, ""), {}), overBudget);
    const value = "x".repeat(1000);
    const containers = Array.from({ length: 100 }, (_, index) => ({
      name: `c${index}`,
      image: "x",
      args: ["$(B)".repeat(100)],
    }));
    const all = new Map(containers.map(({ name }) => [name, [{ name: "B", value }]]));
    const resolved = resolvedOf({ spec: { containers } }, { env: all });
    assert.throws(() => checkPodSize(resolved, {}), overBudget);
  });

  it("hostile pod: refuses too many variables before it makes a document of them", () => {
    const containers = [{ name: "main", image: "x" }];
    const value = "x".repeat(2 ** 20);
    const variables = Array.from({ length: 9 }, (_, index) => ({ name: `V${index}`, value }));
    const resolved: ResolvedPod = {
      ...resolvedOf({ spec: { containers } }, { env: new Map([["main", variables]]) }),
      get lateEnv(): ResolvedPod["lateEnv"] {
        return assert.fail("was read");
      },
    };
    assert.throws(() => checkPodSize(resolved, {}), tooLarge);
  });

  it("hostile pod: does not write groups for each of many containers to see that they are too large", () => {
    const supplementalGroups = Array.from({ length: 300_000 }, () => 1);
    const containers = Array.from({ length: 1000 }, (_, index) => ({ name: `c${index}` }));
    const pod = { spec: { securityContext: { supplementalGroups }, containers } };
    assert.throws(
      () => checkPodSize(resolvedOf(pod), {}),
      (error: Error) => {
        const [, bytes] = /at least (\d+) bytes/.exec(error.message) ?? [];
        return Number(bytes) < 2 * maxBodyBytes;
      },
    );
  });

  it("counts exactly what is sent", () => {
    const one = { name: "a", image: "x" };
    const volumes = [
      { name: "v", emptyDir: {} },
      { name: "w", emptyDir: {} },
    ];
    const fill = (length: number): ResolvedPod =>
      resolvedOf({
        metadata: { annotations: { a: "x".repeat(length) } },
        spec: { volumes, initContainers: [{ ...one, name: "i" }], containers: [one, one] },
      });
    const document = desiredPod(fill(0), {
      nodeIp: "",
      addresses: { podIPs: ["::"], hostIPs: ["::"] },
      dns: { clusterDns: [], clusterDomain: "", hostNameservers: [], hostSearchDomains: [] },
      registries: [],
      generation: 0,
      seccompProfiles: [],
    });
    const left = maxBodyBytes - JSON.stringify(document).length;
    checkPodSize(fill(left), { seccompProfiles: [] });
    assert.throws(() => checkPodSize(fill(left + 1), { seccompProfiles: [] }), tooLarge);
  });

  it("counts profiles of system calls", () => {
    const annotations = { a: "x".repeat(maxBodyBytes - 10_000) };
    const resolved = resolvedOf({ metadata: { annotations } });
    checkPodSize(resolved, {});
    const profile = { name: "p", json: "x".repeat(20_000) };
    assert.throws(() => checkPodSize(resolved, { seccompProfiles: [profile] }), tooLarge);
  });
});
