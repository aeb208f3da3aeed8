import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod, Volume } from "@kip/k8s-types";
import { podFields } from "../pod-fields/pod-fields.ts";
import { rejectUnsupported } from "./fields.ts";

const instead =
  "use emptyDir, hostPath, configMap, secret, downwardAPI, image or projected volumes";

function messageFor(...volumes: readonly object[]): string | undefined {
  const pod = { spec: { containers: [], volumes } } as unknown as Pod; // the fields that are read
  const rejection = rejectUnsupported(pod);
  assert.equal(rejection?.reason ?? "PodFeatureUnsupported", "PodFeatureUnsupported");
  return rejection?.message;
}

describe("rejectUnsupported()", () => {
  it("CVE-2024-10220, CVE-2025-1767: refuses a volume that clones a repository, beside whatever else", () => {
    const gitRepo = { repository: "https://example.com/x.git", directory: "../.git/hooks" };
    const words =
      "Forbidden: cells do not have volumes of this kind; let an init container clone into an emptyDir volume";
    assert.equal(messageFor({ name: "code", gitRepo }), `spec.volumes[0].gitRepo: ${words}`);
    assert.equal(
      messageFor({ name: "data", emptyDir: {} }, { name: "both", emptyDir: {}, gitRepo }),
      `spec.volumes[1].gitRepo: ${words}`,
    );
  });

  it("refuses more containers than kip can read reports of", () => {
    const messageOf = (field: string, count: number): string | undefined => {
      const containers = Array.from({ length: count }, (_, at) => ({ name: `c${at}`, image: "a" }));
      return rejectUnsupported({
        spec: { containers: [], [field]: containers },
      } as unknown as Pod) // the fields that are read
      ?.message;
    };
    for (const field of ["initContainers", "containers", "ephemeralContainers"]) {
      const words = "Forbidden: cells have at most 1000; spread them over several pods";
      assert.equal(messageOf(field, 1001), `spec.${field}: ${words}`);
      assert.equal(messageOf(field, 1000), undefined);
    }
  });

  it("refuses restart rules with an action of a later Kubernetes", () => {
    const messageOf = (action: string): string | undefined => {
      const exitCodes = { operator: "In", values: [42] };
      const restartPolicyRules = [{ action, exitCodes }];
      const main = { name: "main", image: "a", restartPolicy: "Never", restartPolicyRules };
      return rejectUnsupported({
        spec: { containers: [main] },
      } as unknown as Pod) // the fields that are read
      ?.message;
    };
    assert.equal(messageOf("Restart"), undefined);
    assert.equal(
      messageOf("RestartAllContainers"),
      "spec.containers[0].restartPolicyRules[0].action: Forbidden: cells restart only the container that has ended; use the action Restart",
    );
  });

  it("refuses claims as not supported yet, and every kind that the table does not have as one that works", () => {
    const claims = `Forbidden: PersistentVolumeClaims are not supported yet; ${instead}`;
    const others = `Forbidden: cells do not have volumes of this kind; ${instead}`;
    assert.equal(
      messageFor({ name: "claim", persistentVolumeClaim: { claimName: "data" } }),
      `spec.volumes[0].persistentVolumeClaim: ${claims}`,
    );
    assert.equal(
      messageFor({ name: "own", ephemeral: { volumeClaimTemplate: { spec: {} } } }),
      `spec.volumes[0].ephemeral: ${claims}`,
    );
    const nfs = { server: "192.0.2.1", path: "/" };
    assert.equal(messageFor({ name: "share", nfs }), `spec.volumes[0].nfs: ${others}`);
    for (const later of ["kindOfLater", "toString"])
      assert.equal(
        messageFor({ name: "later", [later]: {} }),
        `spec.volumes[0].${later}: ${others}`,
      );
    for (const [kind, { kind: decision }] of Object.entries(podFields["Volume"] ?? {}))
      if (decision !== "works")
        assert.match(messageFor({ name: "x", [kind]: {} }) ?? "", /^spec\.volumes/);
  });

  it("takes volumes of every kind that cells have", () => {
    const volumes: readonly Volume[] = [
      { name: "a", emptyDir: {} },
      { name: "b", hostPath: { path: "/" } },
      { name: "c", configMap: { name: "c" } },
      { name: "d", secret: { secretName: "d" } },
      { name: "e", downwardAPI: {} },
      { name: "f", image: { reference: "registry.example/f:1" } },
      { name: "g", projected: { sources: [] } },
    ];
    assert.equal(messageFor(...volumes), undefined);
    const kinds = volumes.flatMap((volume) => Object.keys(volume).filter((key) => key !== "name"));
    const working = Object.entries(podFields["Volume"] ?? {}).filter(
      ([field, { kind }]) => kind === "works" && field !== "name",
    );
    assert.deepEqual(working.map(([kind]) => kind).sort(), kinds.sort());
  });
});
