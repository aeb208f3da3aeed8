// Small images with high costs: time or memory that grows faster than the image, or exceeds its limits.
import assert from "node:assert/strict";
import childProcess from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Readable } from "node:stream";
import { describe, it, mock } from "node:test";
import { tar, temporaryFolder, type RawEntry } from "@kip/testing";
import { digestOf } from "../digest.ts";
import { localHashing } from "../hashing.ts";
import { TarParser } from "../tar/tar-parser.ts";
import { applyLayer } from "./apply-layer.ts";
import { defaultUnpackLimits, type UnpackLimits } from "./limits.ts";
import { TreeWriter } from "./tree-writer.ts";

/** Unpacks layers into a folder that is inspected before it is removed. */
function unpack(
  layers: readonly (readonly RawEntry[])[],
  limits: Partial<UnpackLimits> = {},
  look: (root: string) => void = () => {},
): void {
  using folder = temporaryFolder();
  {
    using tree = new TreeWriter(folder.path, { ...defaultUnpackLimits, ...limits });
    for (const layer of layers) {
      const parser = new TarParser(tree);
      parser.write(tar(layer));
      parser.end();
      tree.nextLayer();
    }
  }
  look(folder.path);
}

const some = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

const exceeded = (text: RegExp) => ({ code: "IMAGE_LIMIT_EXCEEDED", message: text });

describe("applyLayer(), of an image that costs more than it weighs", () => {
  it("hides a folder's content again and again: it is looked through once", () => {
    const files = some(50, (index) => ({ name: `d/s/${index}` }));
    for (const whiteout of ["d/.wh..wh..opq", ".wh.d", "d/.wh.s", "d/s/.wh..wh..opq"]) {
      const readdir = mock.method(fs, "readdirSync");
      syncBuiltinESMExports();
      try {
        const again = some(100, () => ({ name: whiteout }));
        unpack([[{ name: "d/s/old" }], [...files, ...again]], {}, (root) => {
          assert.ok(readdir.mock.callCount() <= 2, `${whiteout}: ${readdir.mock.callCount()}`);
          assert.equal(fs.readdirSync(`${root}/d/s`).length, 50);
        });
      } finally {
        readdir.mock.restore();
        syncBuiltinESMExports();
      }
    }
  });

  it("has folders that no entry names: they count as entries", () => {
    const deep = { name: `${"d/".repeat(100)}f` };
    assert.throws(() => unpack([[deep]], { entries: 100 }), exceeded(/100 entries/));
    unpack([[deep]], { entries: 101 });
  });

  it("has one large attribute and many names for its file", () => {
    const spawn = mock.method(childProcess, "spawnSync");
    syncBuiltinESMExports();
    try {
      const attribute = { "SCHILY.xattr.user.large": "x".repeat(500_000) };
      const links = some(40, (index) => ({ name: `l${index}`, type: "1", linkName: "f" }));
      unpack([[{ name: "f", pax: attribute }, ...links]]);
      const sizes = spawn.mock.calls.map((call) =>
        Buffer.byteLength(call.arguments[2]?.input as Buffer),
      );
      assert.ok(Math.max(...sizes) < 2_000_000, sizes.join());
    } finally {
      spawn.mock.restore();
      syncBuiltinESMExports();
    }
  });

  it("has large access lists of folders, which wait in memory until the image is whole", () => {
    const pax = { "SCHILY.xattr.system.posix_acl_default": "x".repeat(1_000_000) };
    const folders = some(17, (index) => ({ name: `d${index}/`, type: "5", pax }));
    assert.throws(() => unpack([folders]), exceeded(/folders with attributes/));
  });

  it("has many special files in folders of their own: other work gets its turn in between", async () => {
    const spawn = mock.method(childProcess, "spawnSync");
    syncBuiltinESMExports();
    const perTurn: number[] = [];
    let isDone = false;
    const turn = (): void => {
      perTurn.push(spawn.mock.callCount() - perTurn.reduce((sum, count) => sum + count, 0));
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    try {
      const entries = some(60, (index) => [
        { name: `${index}/`, type: "5" },
        { name: `${index}/fifo`, type: "6" },
      ]).flat();
      using folder = temporaryFolder();
      using tree = new TreeWriter(folder.path, defaultUnpackLimits);
      const layer = tar(entries);
      await applyLayer(Readable.from([layer]), tree, {
        diffId: digestOf(layer),
        limits: defaultUnpackLimits,
        budget: { left: layer.length },
        hashing: localHashing,
      });
      assert.ok(fs.lstatSync(`${folder.path}/59/fifo`).isFIFO());
    } finally {
      isDone = true;
      spawn.mock.restore();
      syncBuiltinESMExports();
    }
    assert.ok(spawn.mock.callCount() >= 59, `${spawn.mock.callCount()} runs`);
    assert.ok(Math.max(...perTurn) <= 2, perTurn.join());
  });

  it("removes many files by one entry: other work gets its turn in between", async () => {
    const link = { type: "2", linkName: "e" } as const;
    for (const [entries, left] of [
      [
        [{ name: ".wh.d" }, { name: "d/8" }],
        ["d", "d/8"],
      ],
      [
        [{ name: "d/.wh..wh..opq" }, { name: "d/8" }],
        ["d", "d/8"],
      ],
      [[{ name: "d" }], ["d"]],
      [
        [{ name: "d", ...link }, { name: "f" }],
        ["d", "f"],
      ],
    ] as const) {
      using folder = temporaryFolder();
      using tree = new TreeWriter(folder.path, defaultUnpackLimits);
      const files = some(1500, (index) => ({ name: `d/${index % 7}/${index}` }));
      const unlink = mock.method(fs, "unlinkSync");
      syncBuiltinESMExports();
      let seen = 0;
      let most = 0;
      let isDone = false;
      const turn = (): void => {
        most = Math.max(most, unlink.mock.callCount() - seen);
        seen = unlink.mock.callCount();
        if (!isDone) setImmediate(turn);
      };
      setImmediate(turn);
      try {
        for (const layer of [tar(files), tar(entries)])
          await applyLayer(Readable.from([layer]), tree, {
            diffId: digestOf(layer),
            limits: defaultUnpackLimits,
            budget: { left: layer.length },
            hashing: localHashing,
          });
        await new Promise((resolve) => setImmediate(resolve));
        const found = fs.readdirSync(folder.path, { recursive: true });
        assert.deepEqual(new Set<unknown>(found), new Set<unknown>(left));
      } finally {
        isDone = true;
        unlink.mock.restore();
        syncBuiltinESMExports();
      }
      assert.equal(unlink.mock.callCount(), 1500);
      assert.ok(most <= 1000, `${most} files in one turn`);
    }
  });

  it("has ways that are long by links", () => {
    const target = "x/../y/../".repeat(200);
    const links = some(3, (index) => ({
      name: `l${index}`,
      type: "2",
      linkName: `${target}l${index + 1}`,
    }));
    const folders = ["x/", "y/", "l3/"].map((name) => ({ name, type: "5" }));
    const entries = [...folders, ...links];
    unpack([[...entries, { name: "l2/f" }]]);
    assert.throws(() => unpack([[...entries, { name: "l0/f" }]]), {
      code: "IMAGE_UNSAFE_ENTRY",
      message: /entry "l0\/f": its way by links is too long/,
    });
  });

  it("has many names, which wait in memory for what a whiteout means", () => {
    const files = some(200, (index) => ({ name: `${index}` }));
    const limits = { nameBytes: 1000 };
    unpack([files, [{ name: "a" }]], limits);
    assert.throws(() => unpack([[], files], limits), exceeded(/1000 bytes of names in a layer/));
  });
});

describe("TreeWriter, of an entry", () => {
  it("of before 1970 keeps its time, and so does its folder", () => {
    const times = { mtime: "-86400.5" };
    const entries = [
      { name: "d/", type: "5", pax: times },
      { name: "d/f", pax: times },
      { name: "d/l", type: "2", linkName: "f", pax: times },
      { name: "z", pax: { mtime: "-999999999999" } },
    ];
    unpack([entries, [{ name: "d/new" }]], {}, (root) => {
      for (const name of ["d", "d/f", "d/l"]) {
        assert.equal(fs.lstatSync(`${root}/${name}`).mtimeMs, -86_400_500, name);
      }
      assert.ok(fs.statSync(`${root}/z`).mtimeMs < 0);
    });
  });

  it("whose PAX header takes values back has those of the plain one", () => {
    const pax = { path: "", linkpath: "", size: "", mtime: "", uid: "", gid: "" };
    unpack([[{ name: "f", content: "text", mtime: 5, pax }]], {}, (root) => {
      assert.equal(fs.readFileSync(`${root}/f`, "utf8"), "text");
      assert.equal(fs.statSync(`${root}/f`).mtimeMs, 5000);
    });
  });
});
