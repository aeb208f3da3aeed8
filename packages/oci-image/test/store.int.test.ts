import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { silentLogger, systemClock } from "@kip/base";
import { startLayoutRegistry, tar, temporaryFolder, writeLayout } from "@kip/testing";
import { openImageStore, parseReference } from "../src/index.ts";
import { missing } from "./fixtures/missing.ts";
import { listTree } from "./fixtures/tree-listing.ts";

const files = (layer: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    name: `layer-${layer}/file-${index}`,
    content: Buffer.alloc(3000, `${layer} ${index} `),
  }));
const layers = [
  tar(files(1, 100)),
  tar(files(2, 100)),
  tar([...files(3, 50), { name: ".wh.layer-1" }]),
];
const script = fileURLToPath(new URL("fixtures/pull-child.ts", import.meta.url));

describe("an image store", () => {
  it("is whole after its process was killed at any moment of a pull", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers, compression: "none" });
    const root = path.join(work.path, "store");
    let child: ChildProcess | undefined;
    let pieces = 0;
    let killAt = Infinity;
    // Sends blobs in pieces, and kills the puller after some of them.
    await using registry = await startLayoutRegistry(layout, (request, response) => {
      const hex = /blobs\/sha256:([0-9a-f]{64})$/.exec(request.url ?? "")?.[1];
      if (hex === undefined) return false;
      const blob = readFileSync(path.join(layout, "blobs/sha256", hex));
      const send = (at: number): void => {
        if (++pieces === killAt) child?.kill("SIGKILL");
        if (at >= blob.length) response.end();
        else response.write(blob.subarray(at, at + 40_000), () => send(at + 40_000));
      };
      send(0);
      return true;
    });
    const pull = async (): Promise<number | null> => {
      child = spawn(process.execPath, [script, root, registry.host, "app"], { stdio: "ignore" });
      const [code] = (await once(child, "exit")) as [number | null]; // as Node documents it
      return code;
    };
    for (const moment of [1, 2, 5, 9, 14, 20, 26]) {
      pieces = 0;
      killAt = moment;
      assert.equal(await pull(), null);
      // The name does not refer to anything yet.
      assert.deepEqual(readdirSync(path.join(root, "names")), []);
    }
    killAt = Infinity;
    assert.equal(await pull(), 0);
    assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
    assert.equal(readdirSync(path.join(root, "trees")).length, 1);
    const [tree = ""] = readdirSync(path.join(root, "trees"));
    assert.deepEqual(readdirSync(path.join(root, "trees", tree)), ["layer-2", "layer-3"]);
    const last = readFileSync(path.join(root, "trees", tree, "layer-3/file-49"));
    assert.deepEqual(last, Buffer.alloc(3000, "3 49 "));
  });

  it("is filled by several processes at once", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers });
    await using registry = await startLayoutRegistry(layout);
    const root = path.join(work.path, "store");
    const children = [1, 2, 3].map(() =>
      spawn(process.execPath, [script, root, registry.host, "app"], { stdio: "inherit" }),
    );
    const exits = await Promise.all(children.map((child) => once(child, "exit")));
    assert.deepEqual(exits, [
      [0, null],
      [0, null],
      [0, null],
    ]);
    assert.equal(readdirSync(path.join(root, "trees")).length, 1);
    assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
  });

  it(
    "mounts a root to write in, once, and takes it away",
    {
      skip: missing({ root: true, programs: ["mount", "umount"] }),
    },
    async () => {
      using work = temporaryFolder();
      const layout = path.join(work.path, "layout");
      const layer = tar([
        { name: "./", type: "5", mode: 0o750, uid: 5, gid: 6 },
        { name: "etc/", type: "5" },
        { name: "etc/motd", content: "hello" },
      ]);
      writeLayout(layout, { layers: [layer] });
      const options = { logger: silentLogger, clock: systemClock };
      const store = await openImageStore({ root: path.join(work.path, "store"), ...options });
      const image = await store.importLayout(layout, parseReference("app"));
      const before = listTree(image.layers[0] ?? "");
      const container = path.join(work.path, "a container");
      const { rootfs } = await store.mountRootfs(image, container);
      try {
        assert.deepEqual(listTree(rootfs), before);
        writeFileSync(path.join(rootfs, "etc/motd"), "changed");
        // A second call, as by a restarted agent, finds it.
        const again = await openImageStore({ root: path.join(work.path, "store"), ...options });
        assert.deepEqual(await again.mountRootfs(image, container), { rootfs });
        assert.equal(readFileSync(path.join(rootfs, "etc/motd"), "utf8"), "changed");
        assert.deepEqual(listTree(image.layers[0] ?? ""), before);
      } finally {
        await store.unmountRootfs(container);
      }
      assert.deepEqual(readdirSync(container), []);
      await store.unmountRootfs(container);
      await store.unmountRootfs(path.join(work.path, "never was"));
      await assert.rejects(
        store.mountRootfs({ ...image, layers: ["/nowhere/at/all"] }, container),
        { code: "ROOTFS_MOUNT_FAILED" },
      );
    },
  );

  it("leaves the work of another PID namespace alone for a day", async () => {
    using work = temporaryFolder();
    const root = path.join(work.path, "store");
    const open = async (): Promise<unknown> =>
      await openImageStore({ root, logger: silentLogger, clock: systemClock });
    await open();
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8);
    const [mine, foreign] = [`1-1-${boot}.x`, `1-1-${boot}-1.x`];
    for (const name of [mine, foreign])
      mkdirSync(path.join(root, "tmp", name, "tree"), { recursive: true });
    await open();
    assert.deepEqual(readdirSync(path.join(root, "tmp")), [foreign]);
    utimesSync(path.join(root, "tmp", foreign), 1000, 1000);
    await open();
    assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
  });

  it("says of its disk's failures which image they kept out", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers: [tar([{ name: "a" }])] });
    const root = path.join(work.path, "store");
    const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
    rmSync(path.join(root, "tmp"), { recursive: true });
    await assert.rejects(store.importLayout(layout, parseReference("app")), {
      code: "IMAGE_STORE_FAILED",
      message:
        /^Cannot import image "docker.io\/library\/app:latest".*: the image store fails: ENOENT/,
    });
  });

  it(
    "keeps an image with device nodes and the same without them apart",
    { skip: missing({ root: true, programs: ["perl"] }) },
    async () => {
      using work = temporaryFolder();
      const layout = path.join(work.path, "layout");
      const device = { name: "dev/null", type: "3", major: 1, minor: 3 };
      writeLayout(layout, { layers: [tar([{ name: "file" }, device])] });
      const reference = parseReference("app");
      const take = async (makesDevices: boolean): Promise<boolean> => {
        const root = path.join(work.path, "store");
        const options = { root, logger: silentLogger, clock: systemClock, makesDevices };
        const store = await openImageStore(options);
        const image = await store.importLayout(layout, reference);
        assert.deepEqual((await store.find(reference))?.layers, image.layers);
        return existsSync(path.join(image.layers[0] ?? "", "dev/null"));
      };
      const found: boolean[] = [];
      for (const makesDevices of [false, true, false, true]) found.push(await take(makesDevices));
      assert.deepEqual(found, [false, true, false, true]);
    },
  );

  it("wants a path that can stand in the options of a mount", async () => {
    for (const root of ["relative", "/a,b", "/a:b"]) {
      await assert.rejects(
        openImageStore({ root, logger: silentLogger, clock: systemClock }),
        TypeError,
      );
    }
  });
});
