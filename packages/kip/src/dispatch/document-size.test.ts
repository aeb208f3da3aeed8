import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { maxBodyBytes } from "@kip/agent-api";
import { podWith } from "@kip/k8s-types/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
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
      checkPodSize(resolved, []);
    });

  it("refuses too much content before it makes a document of it", () => {
    const file = {
      get path(): string {
        return assert.fail("was read");
      },
      data: Buffer.alloc(2 ** 20),
      mode: 0o644,
    };
    const list = Array.from({ length: 7 }, () => file);
    const volumes = [{ name: "all", configMap: { name: "a" } }];
    const files = new Map([["all", list]]);
    const resolved = resolvedOf({ spec: { volumes, containers: [] } }, { files });
    assert.throws(() => checkPodSize(resolved, []), tooLarge);
  });

  it("counts profiles of system calls", () => {
    const annotations = { a: "x".repeat(maxBodyBytes - 10_000) };
    const resolved = resolvedOf({ metadata: { annotations } });
    checkPodSize(resolved, []);
    const profile = { name: "p", json: "x".repeat(20_000) };
    assert.throws(() => checkPodSize(resolved, [profile]), tooLarge);
  });
});
