import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { container } from "../../test/desired-pod.ts";
import { fakeParts } from "../../test/fake-parts.ts";
import { containerMounts } from "./container-mounts.ts";

describe("containerMounts()", () => {
  for (const [subPath, message] of [
    ["/tmp", "error SubPath `/tmp` must not be an absolute path"],
    ["a/../b", "unable to provision SubPath `a/../b`: must not contain '..'"],
    ["..", "unable to provision SubPath `..`: must not contain '..'"],
  ] as const) {
    it(`refuses "${subPath}", which a variable has made of a subPathExpr`, async () => {
      const web = container("web", {
        mounts: [{ name: "data", mountPath: "/data", subPath }],
        terminationMessagePath: "",
      });
      const mounts = containerMounts({
        container: web,
        volumes: new Map([["data", "/nowhere"]]),
        readOnlyVolumes: new Set(),
        podFiles: new Map(),
        terminationFile: "",
        subPaths: "",
        mounter: fakeParts().mounter,
      });
      await assert.rejects(mounts, { code: "AGENT_CONTAINER_CONFIG", message });
    });
  }
});
