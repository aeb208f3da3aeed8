import assert from "node:assert/strict";
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from "node:fs";
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
      shiftedVolumes: new Set(),
      readOnlyVolumes: new Set(),
      podFiles: new Map([["/etc/hosts", "/pod/hosts"]]),
      terminationFile: "",
      subPaths: "",
      mounter: fakeDependencies().mounter,
    });
    const places = mounts.map(({ destination }) => destination);
    assert.deepEqual(places, ["/data", "/logs", "/a/c", "/etc/hosts"]);
  });

  it("lets /etc/hosts be written to in a root that is only read, and no other file of the node's", async () => {
    const mounts = await containerMounts({
      container: container("web", { readOnlyRootFilesystem: true, terminationMessagePath: "" }),
      volumes: new Map(),
      shiftedVolumes: new Set(),
      readOnlyVolumes: new Set(),
      podFiles: new Map(
        ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"].map((file) => [file, file]),
      ),
      terminationFile: "",
      subPaths: "",
      mounter: fakeDependencies().mounter,
    });
    assert.deepEqual(
      mounts.map(({ readOnly }) => readOnly),
      [false, true, true],
    );
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
      shiftedVolumes: new Set(),
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

  it("has mounts propagate where that is wanted, once the cell's own can", async () => {
    let shared = 0;
    const mountsOf = async (propagation?: "HostToContainer" | "Bidirectional") =>
      await containerMounts({
        container: container("web", {
          mounts: [{ name: "data", mountPath: "/a", propagation }],
          terminationMessagePath: "",
        }),
        volumes: new Map([["data", "/volume"]]),
        shiftedVolumes: new Set(),
        readOnlyVolumes: new Set(),
        podFiles: new Map(),
        terminationFile: "",
        subPaths: "",
        mounter: { ...fakeDependencies().mounter, share: async () => void shared++ },
      });
    assert.equal((await mountsOf())[0]?.options, undefined);
    assert.equal(shared, 0);
    assert.deepEqual((await mountsOf("HostToContainer"))[0]?.options, ["rslave"]);
    assert.deepEqual((await mountsOf("Bidirectional"))[0]?.options, ["rshared"]);
    assert.equal(shared, 2);
  });

  it("shows images of volumes to be read, with no program in them", async () => {
    const web = container("web", {
      mounts: [{ name: "models", mountPath: "/models" }],
      terminationMessagePath: "",
    });
    const mounts = await containerMounts({
      container: web,
      volumes: new Map(),
      images: new Map([["models", "/image"]]),
      shiftedVolumes: new Set(),
      readOnlyVolumes: new Set(),
      podFiles: new Map(),
      terminationFile: "",
      subPaths: "",
      mounter: fakeDependencies().mounter,
    });
    const options = ["noexec", "nosuid", "nodev"];
    const expected = { source: "/image", destination: "/models", readOnly: true, options };
    assert.deepEqual(mounts, [expected]);
  });

  it("shows what belongs to the machine's users with other owners to a pod with users of its own", async () => {
    using folder = mkdtempDisposableSync("/tmp/kip-mounts-");
    const [volume, hosts] = [`${folder.path}/volume`, `${folder.path}/hosts`];
    mkdirSync(volume);
    writeFileSync(hosts, "");
    const web = container("web", {
      mounts: [
        { name: "data", mountPath: "/data" },
        { name: "data", mountPath: "/again" },
        { name: "secret", mountPath: "/secret" },
      ],
      terminationMessagePath: "",
    });
    const pairs: (readonly [string, string])[] = [];
    const subPaths = `${folder.path}/run`;
    const mounts = await containerMounts({
      container: web,
      volumes: new Map([
        ["data", volume],
        ["secret", "/files"],
      ]),
      users: { file: "/run/users", firstId: 65_536, idCount: 65_536 },
      shiftedVolumes: new Set(["secret"]),
      readOnlyVolumes: new Set(["secret"]),
      podFiles: new Map([["/etc/hosts", hosts]]),
      terminationFile: "",
      subPaths,
      mounter: {
        ...fakeDependencies().mounter,
        bindMapped: async (_namespace, all) => void pairs.push(...all),
      },
    });
    assert.deepEqual(pairs, [
      [volume, `${subPaths}/mapped-0`],
      [hosts, `${subPaths}/mapped-1`],
    ]);
    assert.deepEqual(
      mounts.map(({ source, destination }) => [destination, source]),
      [
        ["/data", `${subPaths}/mapped-0`],
        ["/again", `${subPaths}/mapped-0`],
        ["/secret", "/files"],
        ["/etc/hosts", `${subPaths}/mapped-1`],
      ],
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
        shiftedVolumes: new Set(),
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
