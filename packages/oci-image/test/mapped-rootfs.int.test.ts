// Mounts overlays on layers whose owners are mapped: needs root, perl and Linux 5.19.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { mapOwners, silentLogger, systemClock } from "@kip/base";
import { tar, temporaryFolder, writeLayout } from "@kip/testing";
import { openImageStore, parseReference } from "../src/index.ts";
import { missing } from "./fixtures/missing.ts";

/** A process in a separate user namespace, in which 0 is the machine's 65,536. */
async function inOwnUsers(): Promise<{ readonly file: string } & AsyncDisposable> {
  const child = spawn("unshare", ["--user", "--", "sh", "-c", "echo in; exec sleep 600"]);
  await once(child.stdout, "data");
  for (const map of ["uid_map", "gid_map"])
    writeFileSync(`/proc/${child.pid}/${map}`, "0 65536 65536");
  return {
    file: `/proc/${child.pid}/ns/user`,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

const owner = (file: string): string => {
  const { uid, gid } = statSync(file);
  return `${uid}:${gid}`;
};

describe("a root file system for users of its own", () => {
  const skip = missing({ root: true, programs: ["mount", "umount", "unshare", "perl"] });

  it("has files of theirs, and leaves those of the image", { skip }, async () => {
    using work = temporaryFolder();
    await using users = await inOwnUsers();
    const layout = path.join(work.path, "layout");
    const layer = tar([
      { name: "./", type: "5", mode: 0o755, uid: 0, gid: 6 },
      { name: "root-s", content: "0" },
      { name: "ours", content: "1000", uid: 1000, gid: 1001 },
    ]);
    writeLayout(layout, { layers: [layer] });
    const options = { logger: silentLogger, clock: systemClock };
    const store = await openImageStore({ root: path.join(work.path, "store"), ...options });
    const image = await store.importLayout(layout, parseReference("app"));
    const container = path.join(work.path, "container");
    // The state after an agent was killed in the middle.
    const place = path.join(container, "mapped", path.basename(image.layers[0] ?? ""));
    mkdirSync(place, { recursive: true });
    await mapOwners(users.file, [[image.layers[0] ?? "", place]]);
    const { rootfs } = await store.mountRootfs(image, container, users.file);
    try {
      assert.deepEqual(
        ["", "root-s", "ours"].map((name) => owner(path.join(rootfs, name))),
        ["65536:65542", "65536:65536", "66536:66537"],
      );
      writeFileSync(path.join(rootfs, "ours"), "changed");
      assert.equal(owner(path.join(rootfs, "ours")), "66536:66537");
      assert.equal(readFileSync(path.join(image.layers[0] ?? "", "ours"), "utf8"), "1000");
      assert.deepEqual(await store.mountRootfs(image, container, users.file), { rootfs });
      assert.deepEqual(readdirSync(container).sort(), ["rootfs", "upper", "work"]);
      // Otherwise the collector would remove trees in use.
      assert.ok(readFileSync("/proc/self/mountinfo", "utf8").includes(path.basename(place)));
    } finally {
      await store.unmountRootfs(container);
    }
    assert.deepEqual(readdirSync(container), []);
  });

  it("is not mounted, and leaves nothing, without its user namespace", { skip }, async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers: [tar([{ name: "file", content: "x" }])] });
    const options = { logger: silentLogger, clock: systemClock };
    const store = await openImageStore({ root: path.join(work.path, "store"), ...options });
    const image = await store.importLayout(layout, parseReference("app"));
    const container = path.join(work.path, "container");
    await assert.rejects(store.mountRootfs(image, container, "/nowhere"), {
      code: "ROOTFS_MOUNT_FAILED",
    });
    await store.unmountRootfs(container);
    assert.deepEqual(readdirSync(container), []);
  });
});
