import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { imageVolumes } from "./image-volumes.ts";

describe("imageVolumes()", () => {
  let folder = "";
  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), "kip-image-volumes-"));
    fs.mkdirSync(place("rootfs/var/lib/data/sub"), { recursive: true });
    fs.writeFileSync(place("rootfs/var/lib/data/file"), "of the image", { mode: 0o640 });
    fs.symlinkSync("/etc/passwd", place("rootfs/var/lib/data/link"));
    fs.chmodSync(place("rootfs/var/lib/data"), 0o1770);
    fs.mkdirSync(place("secret"));
    fs.writeFileSync(place("secret/key"), "of the machine");
  });
  afterEach(() => fs.rmSync(folder, { recursive: true }));
  const place = (name: string): string => path.join(folder, name);
  const make = async (volumes: readonly string[], taken: readonly string[] = []) =>
    await imageVolumes({
      volumes,
      mounts: taken.map((destination) => ({ destination })),
      rootfs: place("rootfs"),
      directory: place("volumes"),
    });

  it("has what the image has at the path, with its owner and mode, and can be written to", async () => {
    const [mount] = await make(["/var/lib/data"]);
    assert.equal(mount?.destination, "/var/lib/data");
    assert.equal(mount.readOnly, false);
    assert.equal(fs.statSync(mount.source).mode & 0o7777, 0o1770);
    assert.deepEqual(fs.readdirSync(mount.source).sort(), ["file", "link", "sub"]);
    assert.equal(fs.statSync(path.join(mount.source, "file")).mode & 0o7777, 0o640);
    assert.equal(fs.readlinkSync(path.join(mount.source, "link")), "/etc/passwd");
    // The content is copied, not shared.
    fs.writeFileSync(path.join(mount.source, "file"), "changed");
    assert.equal(fs.readFileSync(place("rootfs/var/lib/data/file"), "utf8"), "of the image");
  });

  it("is empty where the image has nothing", async () => {
    const [mount] = await make(["/new/place"]);
    assert.deepEqual(fs.readdirSync(mount?.source ?? ""), []);
    assert.ok(!fs.existsSync(place("rootfs/new")));
  });

  it("leaves out what the pod mounts there, and what the runtime does", async () => {
    const volumes = ["/var/lib/data", "/", "/proc", "/proc/sys", "/sys/fs/cgroup", "/dev/shm"];
    assert.deepEqual(await make(volumes, ["/var/lib/data"]), []);
    assert.ok(!fs.existsSync(place("volumes")));
  });

  it("leaves out what leads to the root through a link, as it does the root", async () => {
    fs.symlinkSync("/", place("rootfs/all"));
    fs.symlinkSync("var/../..", place("rootfs/above"));
    assert.deepEqual(await make(["/all", "/above", "/all/var/.."]), []);
    assert.ok(!fs.existsSync(place("volumes")));
  });

  it("leaves out what leads through a link to what the runtime mounts", async () => {
    fs.mkdirSync(place("rootfs/proc/sys"), { recursive: true });
    fs.symlinkSync("/proc", place("rootfs/facts"));
    // The image itself does not have this folder.
    fs.symlinkSync("dev", place("rootfs/nodes"));
    assert.deepEqual(await make(["/facts", "/facts/sys", "/nodes"]), []);
    assert.ok(!fs.existsSync(place("volumes")));
  });

  it("leaves out what leads there through a link that is not text", async () => {
    fs.mkdirSync(Buffer.concat([Buffer.from(`${place("rootfs")}/x`), Buffer.of(0xff)]));
    fs.symlinkSync(Buffer.from("x\xff/../proc", "latin1"), place("rootfs/facts"));
    assert.deepEqual(await make(["/facts", "/facts/sys"]), []);
    assert.ok(!fs.existsSync(place("volumes")));
  });

  it("makes one of each", async () => {
    const mounts = await make(["/a", "/b", "/a/", "/b"].map((name) => path.posix.normalize(name)));
    assert.equal(new Set(mounts.map(({ source }) => source)).size, mounts.length);
  });

  for (const target of ["/secret", "../../secret", "../../../../../../../../secret"]) {
    it(`CVE-2022-23648: copies nothing of the machine through a link to "${target}"`, async () => {
      fs.symlinkSync(target, place("rootfs/out"));
      fs.symlinkSync("out", place("rootfs/twice"));
      for (const volume of ["/out", "/twice", "/out/key", "/var/../../secret"]) {
        const [mount] = await make([volume]);
        assert.deepEqual(fs.readdirSync(mount?.source ?? ""), [], volume);
        fs.rmSync(place("volumes"), { recursive: true });
      }
    });
  }

  it("CVE-2022-23648: copies a folder of the image through its links", async () => {
    fs.symlinkSync("/var/lib", place("rootfs/out"));
    const [mount] = await make(["/out/data"]);
    assert.ok(fs.readdirSync(mount?.source ?? "").includes("file"));
  });
});
