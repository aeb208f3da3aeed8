import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { unsupportedVolumes } from "./desired-pod.ts";

describe("unsupportedVolumes()", () => {
  it("CVE-2024-10220, CVE-2025-1767: has no volume that clones a repository, beside whatever else", () => {
    const gitRepo = { repository: "https://example.com/x.git", directory: "../.git/hooks" };
    const volumes = [
      { name: "code", gitRepo },
      { name: "both", emptyDir: {}, gitRepo },
      { name: "data", emptyDir: {} },
    ];
    const pod = { spec: { volumes } } as unknown as Pod; // all that is looked at
    assert.deepEqual(unsupportedVolumes(pod), ["code (gitRepo)", "both (gitRepo)"]);
  });
});
