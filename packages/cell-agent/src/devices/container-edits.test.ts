import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerEdits } from "./cdi-file.ts";
import { withDevices } from "./container-edits.ts";

const spec = {
  env: ["A=1", "B=2"],
  mounts: [{ source: "/volume", destination: "/data", readOnly: false }],
  user: { uid: 1000, gid: 1001, additionalGids: [5] },
};
const found = { type: "c", major: 10, minor: 200 } as const;
const describeAny = async () => found;

async function edited(...edits: readonly ContainerEdits[]) {
  return await withDevices(spec, [{ name: "0", id: "0", edits }], describeAny);
}

describe("withDevices()", () => {
  it("leaves a container without devices as it is", async () => {
    assert.equal(await withDevices(spec, [], describeAny), spec);
  });

  it("adds variables in place of those of their name, groups, mounts and hooks", async () => {
    const hook = { hookName: "createContainer", path: "/bin/hook", args: ["hook", "x"] } as const;
    const { env, user, mounts, hooks } = await edited({
      env: ["B=3", "C=4"],
      additionalGids: [5, 44],
      mounts: [
        {
          hostPath: "/lib/a.so",
          containerPath: "/usr/lib/a.so",
          options: ["ro", "nosuid", "bind"],
        },
        { hostPath: "tmpfs", containerPath: "/scratch", type: "tmpfs" },
      ],
      hooks: [hook],
    });
    assert.deepEqual(env, ["A=1", "B=3", "C=4"]);
    assert.deepEqual(user.additionalGids, [5, 44]);
    assert.deepEqual(mounts.slice(1), [
      {
        type: "bind",
        source: "/lib/a.so",
        destination: "/usr/lib/a.so",
        readOnly: true,
        options: ["nosuid"],
      },
      { type: "tmpfs", source: "tmpfs", destination: "/scratch", readOnly: false },
    ]);
    assert.deepEqual(hooks, [{ kind: "createContainer", path: "/bin/hook", args: ["hook", "x"] }]);
  });

  it("takes what a device node leaves out from the machine, and its owner from the container", async () => {
    const { devices } = await edited({
      deviceNodes: [
        { path: "/dev/card", hostPath: "/dev/null", permissions: "rw" },
        { path: "/dev/disk", type: "b", major: 8, minor: 0, uid: 0, gid: 6, fileMode: 0o640 },
      ],
    });
    assert.deepEqual(devices, [
      { path: "/dev/card", access: "rw", fileMode: 0o666, uid: 1000, gid: 1001, ...found },
      {
        path: "/dev/disk",
        access: "rwm",
        fileMode: 0o640,
        uid: 0,
        gid: 6,
        type: "b",
        major: 8,
        minor: 0,
      },
    ]);
  });

  it("brings what several devices of a file have in common once", async () => {
    const common = { mounts: [{ hostPath: "/lib", containerPath: "/lib" }] };
    const own = (name: string): ContainerEdits => ({ deviceNodes: [{ path: `/dev/${name}` }] });
    const devices = ["0", "1"].map((name) => ({ name, id: name, edits: [own(name), common] }));
    const made = await withDevices(spec, devices, describeAny);
    assert.equal(made.mounts.length, 2);
    assert.deepEqual(
      made.devices?.map(({ path }) => path),
      ["/dev/0", "/dev/1"],
    );
  });

  it("refuses nodes that are not there, and mounts that it does not know", async () => {
    const missing = withDevices(
      spec,
      [{ name: "0", id: "0", edits: [{ deviceNodes: [{ path: "/dev/none" }] }] }],
      async () => undefined,
    );
    await assert.rejects(missing, {
      code: "AGENT_CONTAINER_INVALID",
      message: /"\/dev\/none" is not there/,
    });
    const mounts = [{ hostPath: "x", containerPath: "/x", type: "nfs" }];
    await assert.rejects(edited({ mounts }), { code: "AGENT_CONTAINER_INVALID" });
  });
});
