import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { container } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { containerMounts } from "./container-mounts.ts";

describe("containerMounts()", () => {
  it("makes paths absolute and writes each in one way", async () => {
    const web = container("web", {
      mounts: ["data", "/logs/", "/a//b/../c", "/etc/hosts/"].map((mountPath) => ({
        name: "data",
        mountPath,
      })),
      terminationMessagePath: "",
    });
    const mounts = await containerMounts({
      container: web,
      volumes: new Map([["data", "/volume"]]),
      readOnlyVolumes: new Set(),
      podFiles: new Map([["/etc/hosts", "/pod/hosts"]]),
      terminationFile: "",
      subPaths: "",
      mounter: fakeDependencies().mounter,
    });
    const places = mounts.map(({ destination }) => destination);
    assert.deepEqual(places, ["/data", "/logs", "/a/c", "/etc/hosts"]);
  });

  it("makes submounts read-only where that is wanted of a mount that is only read", async () => {
    const web = container("web", {
      mounts: [
        { name: "data", mountPath: "/a", readOnly: true, recursiveReadOnly: true },
        { name: "data", mountPath: "/b", readOnly: true },
        { name: "data", mountPath: "/c", recursiveReadOnly: true },
      ],
      terminationMessagePath: "",
    });
    const mounts = await containerMounts({
      container: web,
      volumes: new Map([["data", "/volume"]]),
      readOnlyVolumes: new Set(),
      podFiles: new Map(),
      terminationFile: "",
      subPaths: "",
      mounter: fakeDependencies().mounter,
    });
    assert.deepEqual(
      mounts.map(({ options }) => options),
      [["rro"], undefined, undefined],
    );
  });

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
        mounter: fakeDependencies().mounter,
      });
      await assert.rejects(mounts, { code: "AGENT_CONTAINER_CONFIG", message });
    });
  }
});
