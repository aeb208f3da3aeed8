// Collection while other processes use the store, with the steps of both in the most critical order.
import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { mount, silentLogger, systemClock, unmount } from "@kip/base";
import { tar, temporaryFolder, writeLayout } from "@kip/testing";
import { openImageStore, parseReference, type ManagedImageStore } from "../src/index.ts";
import { collect } from "../src/store/collect.ts";
import { StoreFolder } from "../src/store/store-folder.ts";
import { missing } from "./fixtures/missing.ts";

const logger = silentLogger;
const later = (): number => Date.now() + 1e9;
/** A folder of a process that has ended. */
const killed = "1-0-00000000-0.work";

/** A store folder in which something happens between the last check and the removal. */
class BusyFolder extends StoreFolder {
  readonly #before: () => Promise<void>;

  constructor(root: string, before: () => Promise<void>) {
    super(root, systemClock);
    this.#before = before;
  }

  override async removeTree(...args: Parameters<StoreFolder["removeTree"]>): Promise<boolean> {
    await this.#before();
    return await super.removeTree(...args);
  }
}

interface Place {
  readonly root: string;
  readonly store: ManagedImageStore;
  readonly tree: string;
  /** Mounts the tree, without the store's help. */
  readonly mountTree: () => Promise<void>;
  readonly unmountTree: () => Promise<void>;
  readonly rootfs: string;
  readonly take: () => Promise<void>;
}

async function withStore(use: (place: Place) => Promise<void>): Promise<void> {
  using work = temporaryFolder();
  const root = path.join(work.path, "store");
  const store = await openImageStore({ root, logger, clock: systemClock });
  const layout = path.join(work.path, "layout");
  writeLayout(layout, { layers: [tar([{ name: "file", content: "content" }])] });
  const take = async (): Promise<void> =>
    void (await store.importLayout(layout, parseReference("app")));
  await take();
  const tree = path.join(root, "trees", readdirSync(path.join(root, "trees"))[0] ?? "");
  for (const name of ["upper", "work", "rootfs"]) mkdirSync(path.join(work.path, name));
  const rootfs = path.join(work.path, "rootfs");
  const options = `lowerdir=${tree},upperdir=${work.path}/upper,workdir=${work.path}/work`;
  let isMounted = false;
  const mountTree = async (): Promise<void> => {
    await mount(["-t", "overlay", "overlay", "-o", options, rootfs]);
    isMounted = true;
  };
  const unmountTree = async (): Promise<void> => {
    if (isMounted) await unmount([rootfs]);
    isMounted = false;
  };
  try {
    await use({ root, store, tree, mountTree, unmountTree, rootfs, take });
  } finally {
    await unmountTree();
  }
}

const needs = { skip: missing({ root: true, programs: ["mount", "umount"] }) };

describe("collect()", needs, () => {
  it("keeps a tree that is mounted after the last look at it", async () => {
    await withStore(async ({ root, mountTree, tree, rootfs }) => {
      const folder = new BusyFolder(root, mountTree);
      assert.deepEqual((await collect(folder, { maxBytes: 0 }, later())).removed, []);
      assert.deepEqual(readdirSync(tree), ["file"]);
      assert.equal(readFileSync(path.join(rootfs, "file"), "utf8"), "content");
      assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
    });
  });

  it("keeps a tree that is found after the last look at it", async () => {
    await withStore(async ({ root, tree }) => {
      const now = later();
      const folder: StoreFolder = new BusyFolder(root, async () => {
        folder.markUsed(`sha256:${path.basename(tree)}`, now);
        await Promise.resolve();
      });
      assert.deepEqual((await collect(folder, { maxBytes: 0 }, now)).removed, []);
      assert.deepEqual(readdirSync(tree), ["file"]);
    });
  });

  it("keeps a mounted tree whose name was taken by another copy meanwhile", async () => {
    await withStore(async ({ root, mountTree, unmountTree, tree, rootfs, take }) => {
      await mountTree();
      const folder = new StoreFolder(root, systemClock);
      let takes: Promise<void> | undefined;
      const isRemoved = folder.removeTree(path.basename(tree), () => {
        mkdirSync(path.join(tree, "copy"), { recursive: true });
        takes = take();
        return true;
      });
      assert.equal(await isRemoved, false);
      await takes;
      assert.equal(readFileSync(path.join(rootfs, "file"), "utf8"), "content");
      const [work = ""] = readdirSync(path.join(root, "tmp"));
      renameSync(path.join(root, "tmp", work), path.join(root, "tmp", killed));
      await folder.prepare();
      assert.equal(readFileSync(path.join(rootfs, "file"), "utf8"), "content");
      await unmountTree();
      await folder.prepare();
      assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
    });
  });
});

describe("openImageStore()", needs, () => {
  it("is called by several at once after kills", async () => {
    await withStore(async ({ root, store }) => {
      for (let index = 0; index < 40; index++) {
        const work = path.join(root, "tmp", `${killed}-${index}`);
        mkdirSync(path.join(work, "tree/folder"), { recursive: true });
        writeFileSync(path.join(root, "tmp", `${killed}-draft-${index}`), "{");
      }
      const open = async (): Promise<unknown> =>
        await openImageStore({ root, logger, clock: systemClock });
      await Promise.all([open(), open(), open(), open()]);
      assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
      assert.ok(await store.find(parseReference("app")));
    });
  });

  it("gives a mounted tree back that a killed collection took away", async () => {
    await withStore(async ({ root, mountTree, tree, rootfs, store }) => {
      await mountTree();
      const away = path.join(root, "tmp", killed, path.basename(tree));
      mkdirSync(path.dirname(away));
      renameSync(tree, away);
      await openImageStore({ root, logger, clock: systemClock });
      assert.equal(readFileSync(path.join(rootfs, "file"), "utf8"), "content");
      assert.ok(await store.find(parseReference("app")));
      assert.equal(existsSync(path.dirname(away)), false);
    });
  });

  it("removes a tree that a killed collection took away if it is not used", async () => {
    await withStore(async ({ root, tree, store }) => {
      const away = path.join(root, "tmp", killed, path.basename(tree));
      mkdirSync(path.dirname(away));
      renameSync(tree, away);
      await openImageStore({ root, logger, clock: systemClock });
      assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
      assert.equal(await store.find(parseReference("app")), undefined);
    });
  });
});
