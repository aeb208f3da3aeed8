// Maintenance of a store: collection, verification, a shared cache, full disks, kills.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { mount, runCommand, silentLogger, systemClock, unmount } from "@kip/base";
import { startLayoutRegistry, tar, temporaryFolder, writeLayout } from "@kip/testing";
import { openImageStore, parseReference, prefetchImage } from "../src/index.ts";
import { collect } from "../src/store/collect.ts";
import { StoreFolder } from "../src/store/store-folder.ts";
import { missing } from "./fixtures/missing.ts";
import { listTree } from "./fixtures/tree-listing.ts";

const script = fileURLToPath(new URL("fixtures/pull-child.ts", import.meta.url));
const logger = silentLogger;
const layerOf = (name: string, size = 100_000): Buffer =>
  tar([{ name, content: Buffer.alloc(size, `${name} `) }]);

/** A clock that a test moves. */
function movableClock(): typeof systemClock & { skew: number } {
  const clock = { ...systemClock, skew: 0, now: () => Date.now() + clock.skew };
  return clock;
}

describe("a store's care", () => {
  it("removes the longest unused first, until the rest is small enough", async () => {
    using work = temporaryFolder();
    const root = path.join(work.path, "store");
    const clock = movableClock();
    const store = await openImageStore({ root, logger, clock });
    const trees: string[] = [];
    for (const name of ["a", "b", "c"]) {
      const layout = path.join(work.path, name);
      writeLayout(layout, { layers: [layerOf(name, 1_000_000)] });
      const image = await store.importLayout(layout, parseReference(name));
      trees.push(image.layers[0] ?? "");
      clock.skew += 3_600_000;
    }
    assert.ok(await store.find(parseReference("a")));
    clock.skew += 1_800_000;
    // Recently used trees may be about to be mounted.
    const young = await store.collect({ maxBytes: 0, graceMs: 24 * 3_600_000 });
    assert.deepEqual([young.removed, young.keptBytes > 3_000_000], [[], true]);
    const { removed } = await store.collect({ maxBytes: 2_100_000 });
    assert.deepEqual(removed, [path.basename(trees[1] ?? "")]);
    assert.deepEqual(trees.map(existsSync), [true, false, true]);
    assert.equal(await store.find(parseReference("b")), undefined);
    const names = (await store.list()).map(({ reference }) => reference.replace(/@.*/, ""));
    assert.deepEqual([...new Set(names)].sort(), [
      "docker.io/library/a",
      "docker.io/library/a:latest",
      "docker.io/library/c",
      "docker.io/library/c:latest",
    ]);
    clock.skew += 3_600_000;
    await store.collect({ maxIdleMs: 1_000_000 });
    assert.deepEqual(readdirSync(path.join(root, "trees")), []);
    for (const folder of ["names", "images", "tmp"]) {
      assert.deepEqual(readdirSync(path.join(root, folder)), []);
    }
    await store.importLayout(path.join(work.path, "b"), parseReference("b"));
    assert.ok(await store.find(parseReference("b")));
  });

  it(
    "never removes what is mounted",
    { skip: missing({ root: true, programs: ["mount", "umount"] }) },
    async () => {
      using work = temporaryFolder();
      const clock = movableClock();
      const store = await openImageStore({ root: path.join(work.path, "store"), logger, clock });
      writeLayout(path.join(work.path, "layout"), { layers: [layerOf("a")] });
      const image = await store.importLayout(path.join(work.path, "layout"), parseReference("a"));
      const container = path.join(work.path, "container");
      await store.mountRootfs(image, container);
      clock.skew = 1e9;
      try {
        assert.deepEqual((await store.collect({ maxBytes: 0 })).removed, []);
      } finally {
        await store.unmountRootfs(container);
      }
      assert.equal((await store.collect({ maxBytes: 0 })).removed.length, 1);
    },
  );

  it(
    "never removes what is mounted in another mount namespace",
    { skip: missing({ root: true, programs: ["mount", "unshare"] }) },
    async () => {
      using work = temporaryFolder();
      const clock = movableClock();
      const store = await openImageStore({ root: path.join(work.path, "store"), logger, clock });
      writeLayout(path.join(work.path, "layout"), { layers: [layerOf("a")] });
      const image = await store.importLayout(path.join(work.path, "layout"), parseReference("a"));
      for (const name of ["upper", "work", "rootfs"]) mkdirSync(path.join(work.path, name));
      const options = `lowerdir=${image.layers[0]},upperdir=upper,workdir=work`;
      const command = `mount -t overlay overlay -o ${options} rootfs && echo mounted && read end`;
      const child = spawn("unshare", ["--mount", "sh", "-c", command], { cwd: work.path });
      try {
        await once(child.stdout, "data");
        clock.skew = 1e9;
        assert.deepEqual((await store.collect({ maxBytes: 0 })).removed, []);
      } finally {
        child.stdin.end();
        await once(child, "close");
      }
      assert.equal((await store.collect({ maxBytes: 0 })).removed.length, 1);
    },
  );

  it("spares what another image has just begun to use, and what is used while it looks", async () => {
    using work = temporaryFolder();
    const root = path.join(work.path, "store");
    const clock = movableClock();
    const store = await openImageStore({ root, logger, clock });
    for (const [name, Cmd] of Object.entries({ a: ["/a"], b: ["/b"] })) {
      const layout = path.join(work.path, name);
      writeLayout(layout, { layers: [layerOf("same")], config: { Cmd } });
      await store.importLayout(layout, parseReference(name));
      clock.skew += 3_600_000;
    }
    const folder = new StoreFolder(root, systemClock);
    const [tree] = folder.listTrees();
    assert.ok(tree && clock.now() - tree.usedAt < 3_700_000, "the second use counts");
    class BusyFolder extends StoreFolder {
      override listTrees(): ReturnType<StoreFolder["listTrees"]> {
        const trees = super.listTrees();
        this.markUsed(`sha256:${tree?.hex}`, clock.now());
        return trees;
      }
    }
    const busy = new BusyFolder(root, systemClock);
    assert.deepEqual((await collect(busy, { maxBytes: 0 }, clock.now())).removed, []);
  });

  it("is not stopped by paths that are longer than the kernel takes", async () => {
    using work = temporaryFolder();
    const root = path.join(work.path, "store");
    const clock = movableClock();
    const store = await openImageStore({ root, logger, clock });
    const deep = `${"n".repeat(250)}/`.repeat(16).slice(0, 4080);
    // Through a link it leads deeper than an entry's name could.
    const layer = tar([
      { name: `${deep}/f`, content: "x" },
      { name: "l", type: "2", linkName: deep },
      { name: `l/${deep.slice(0, 2000)}/f`, content: "x" },
    ]);
    const broken = path.join(work.path, "broken");
    writeLayout(broken, { layers: [layer], diffIds: [`sha256:${"a".repeat(64)}`] });
    await assert.rejects(store.importLayout(broken, parseReference("a")), {
      code: "IMAGE_DIGEST_MISMATCH",
    });
    assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
    writeLayout(path.join(work.path, "layout"), { layers: [layer] });
    await using registry = await startLayoutRegistry(path.join(work.path, "layout"));
    const options = { registries: [{ host: registry.host, endpoint: `http://${registry.host}` }] };
    const reference = parseReference(`${registry.host}/a`);
    await store.pull(reference, options);
    assert.equal(await store.verify(reference, options), undefined);
    clock.skew = 1e9;
    const { removed, removedBytes } = await store.collect({ maxBytes: 0 });
    assert.ok(removed.length === 1 && removedBytes > 20 * 4096);
    assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
  });

  it("is taken by several at once", async () => {
    using work = temporaryFolder();
    const clock = movableClock();
    const options = { root: path.join(work.path, "store"), logger, clock };
    const stores = await Promise.all([openImageStore(options), openImageStore(options)]);
    const files = Array.from({ length: 300 }, (_, index) => ({ name: `${index}`, content: "x" }));
    for (const name of ["a", "b", "c"]) {
      const layout = path.join(work.path, name);
      writeLayout(layout, { layers: [tar([...files, { name }])] });
      await stores[0].importLayout(layout, parseReference(name));
    }
    clock.skew = 1e9;
    const all = await Promise.all(
      stores.map(async (store) => await store.collect({ maxBytes: 0 })),
    );
    assert.equal(new Set(all.flatMap(({ removed }) => removed)).size, 3);
    assert.equal(all.flatMap(({ removed }) => removed).length, 3);
  });

  it(
    "takes a layout's files for nothing but files",
    { skip: missing({ programs: ["mkfifo"] }) },
    async () => {
      using work = temporaryFolder();
      const store = await openImageStore({
        root: path.join(work.path, "store"),
        logger,
        clock: systemClock,
      });
      const layout = path.join(work.path, "layout");
      const root = writeLayout(layout, { layers: [layerOf("a")] });
      const take = async (): Promise<unknown> =>
        await store.importLayout(layout, parseReference("a"));
      for (const file of [path.join("blobs/sha256", root.digest.slice(7)), "index.json"]) {
        rmSync(path.join(layout, file));
        await runCommand("mkfifo", [path.join(layout, file)]);
        await assert.rejects(take(), { code: "IMAGE_INVALID" });
      }
    },
  );

  it("finds and mends a tree that somebody has changed", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers: [tar([{ name: "etc/motd", content: "hello" }])] });
    await using registry = await startLayoutRegistry(layout);
    const { host } = registry;
    const options = { registries: [{ host, endpoint: `http://${host}` }] };
    const store = await openImageStore({
      root: path.join(work.path, "store"),
      logger,
      clock: systemClock,
    });
    const reference = parseReference(`${host}/app`);
    const [tree = ""] = (await store.pull(reference, options)).layers;
    const before = listTree(tree);
    assert.equal(await store.verify(reference, options), undefined);
    writeFileSync(path.join(tree, "etc/motd"), "hullo");
    assert.equal(await store.verify(reference, options), "/etc/motd");
    assert.equal(await store.verify(reference, options), undefined);
    assert.deepEqual(
      listTree(tree).map((line) => line.replace(/ \d+$/, "")),
      before.map((line) => line.replace(/ \d+$/, "")),
    );
    assert.deepEqual(readdirSync(path.join(work.path, "store/tmp")), []);
  });

  it("takes blobs from a shared cache, and from the registry where that is wrong", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    const layers = [layerOf("one"), layerOf("two"), layerOf("three")];
    writeLayout(layout, { layers, isIndexed: true, compression: "none" });
    await using registry = await startLayoutRegistry(layout);
    const { host } = registry;
    const cache = path.join(work.path, "cache");
    const registries = [{ host, endpoint: `http://${host}` }];
    const reference = parseReference(`${host}/app`);
    const fill = async (): Promise<number> =>
      (await prefetchImage(reference, cache, { registries })).writtenBytes;
    const [first, second, third] = await Promise.all([fill(), fill(), fill()]);
    assert.ok(first + second + third > 300_000);
    // However many processes fill it, each blob is downloaded once.
    const fetched = registry.requests.filter((request) => request.includes("/blobs/"));
    assert.equal(new Set(fetched).size, fetched.length);
    assert.equal((await prefetchImage(reference, cache, { registries })).writtenBytes, 0);
    const blobs = path.join(cache, "blobs/sha256");
    assert.equal(readdirSync(blobs).length, 6);
    const pull = async (name: string): Promise<readonly string[]> => {
      registry.requests.length = 0;
      const root = path.join(work.path, name);
      const store = await openImageStore({ root, logger, clock: systemClock });
      const image = await store.pull(reference, { registries, cache });
      assert.deepEqual(readdirSync(image.layers[0] ?? "").sort(), ["one", "three", "two"]);
      assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
      return registry.requests;
    };
    // The registry is only asked what the tag refers to.
    assert.equal((await pull("whole")).length, 1);
    // A modified blob, a truncated one, a missing one, and a link.
    const big = readdirSync(blobs).filter(
      (name) => readFileSync(path.join(blobs, name)).length > 50_000,
    );
    const [altered = "", cut = "", gone = ""] = big.map((name) => path.join(blobs, name));
    const bytes = readFileSync(altered);
    writeFileSync(altered, Buffer.from(bytes).fill(1, 5000, 6000));
    assert.ok((await pull("altered")).length > 1);
    // Files of a killed process and later damage are repaired.
    const hex = path.basename(altered);
    writeFileSync(path.join(blobs, `.${hex}.draft-1`), "half");
    assert.equal((await prefetchImage(reference, cache, { registries })).writtenBytes, 0);
    assert.equal(
      (await prefetchImage(reference, cache, { registries, verifies: true })).writtenBytes,
      bytes.length,
    );
    assert.deepEqual(readFileSync(altered), bytes);
    assert.equal(readdirSync(blobs).length, 6);
    writeFileSync(cut, readFileSync(cut).subarray(0, 1000));
    renameSync(gone, `${gone}.moved`);
    assert.equal((await pull("cut")).length, 3);
    assert.ok((await pull("no cache")).length >= 3);
    // A cache that does not work at all, as when its server is gone.
    rmSync(path.join(cache, "blobs"), { recursive: true });
    symlinkSync("blobs", path.join(cache, "blobs"));
    assert.ok((await pull("broken")).length >= 5);
  });

  it(
    "says that the disk is full, and goes on when there is room again",
    { skip: missing({ root: true, programs: ["mount", "umount"] }) },
    async () => {
      using work = temporaryFolder();
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers: [layerOf("a", 500_000), layerOf("b", 9_000_000)] });
      const root = path.join(work.path, "store");
      mkdirSync(root);
      await mount(["-t", "tmpfs", "-o", "size=4m", "tmpfs", root]);
      try {
        const store = await openImageStore({ root, logger, clock: systemClock });
        const take = async () => await store.importLayout(layout, parseReference("app"));
        await assert.rejects(take(), (error) => {
          assert.match(
            String(error),
            /layer 2 of 2: entry "b": the disk of the image store is full/,
          );
          return true;
        });
        assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
        assert.equal(await store.find(parseReference("app")), undefined);
        await mount(["-o", "remount,size=40m", root]);
        const image = await take();
        assert.deepEqual(readdirSync(image.layers[0] ?? ""), ["a", "b"]);
      } finally {
        await unmount([root]);
      }
    },
  );

  it("is whole after kills at random moments of pulls", async (context) => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    const files = (prefix: string) =>
      Array.from({ length: 200 }, (_, index) => ({
        name: `${prefix}/${index}`,
        content: Buffer.alloc(3000, `${prefix} ${index} `),
      }));
    const layers = [tar(files("a")), tar([...files("b"), { name: ".wh.a" }]), tar(files("c"))];
    writeLayout(layout, { layers });
    await using registry = await startLayoutRegistry(layout);
    const pull = (root: string) =>
      spawn(process.execPath, [script, root, registry.host, "app"], { stdio: "ignore" });
    const judge = path.join(work.path, "judge");
    const start = performance.now();
    assert.deepEqual(await once(pull(judge), "exit"), [0, null]);
    const tookMs = performance.now() - start;
    const treeOf = (root: string): readonly string[] => {
      const trees = path.join(root, "trees");
      return readdirSync(trees).flatMap((name) =>
        listTree(path.join(trees, name)).map((line) => line.replace(/ \d+$/, "")),
      );
    };
    const expected = treeOf(judge);
    assert.equal(expected.length, 403);
    const root = path.join(work.path, "store");
    let killed = 0;
    // KIP_KILLS=200 for the long run.
    const kills = Number(process.env["KIP_KILLS"] ?? 12);
    for (let count = 0; count < kills; count++) {
      const child = pull(root);
      const exited = once(child, "exit");
      // The time is random on purpose. Nothing is waited for.
      const timer = setTimeout(() => void child.kill("SIGKILL"), tookMs * (0.3 + Math.random()));
      const [code] = (await exited) as [number | null]; // as Node documents it
      clearTimeout(timer);
      if (code === null) killed++;
      // A tree with its final name is complete at any time.
      if (
        existsSync(path.join(root, "trees")) &&
        readdirSync(path.join(root, "trees")).length > 0
      ) {
        assert.deepEqual(treeOf(root), expected);
        renameSync(root, path.join(work.path, `done-${count}`));
      }
    }
    assert.deepEqual(await once(pull(root), "exit"), [0, null]);
    assert.deepEqual(treeOf(root), expected);
    assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
    context.diagnostic(`${killed} of ${kills} pulls were killed`);
  });
});
