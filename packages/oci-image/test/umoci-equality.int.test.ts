// umoci, an unpacker by other people, is the judge: our trees are like its trees.
import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { openImageStore, parseReference } from "../src/index.ts";
import { writeLayout, type Compression } from "./fixtures/layout-writer.ts";
import { tar, type RawEntry } from "./fixtures/tar-writer.ts";
import { missing, temporaryFolder } from "./fixtures/temporary-folder.ts";
import { listTree } from "./fixtures/tree-listing.ts";

const folder = (name: string, more: Partial<RawEntry> = {}): RawEntry => ({
  name,
  type: "5",
  ...more,
});
const longName = `long/${"n".repeat(120)}/${"m".repeat(200)}`;

const base: readonly RawEntry[] = [
  folder("./", { mode: 0o755, mtime: 1_500_000_000 }),
  folder("./etc/", { mode: 0o750, uid: 3, gid: 4, mtime: 1_500_000_001 }),
  { name: "./etc/passwd", content: "root:x:0:0::/root:/bin/sh\n", uid: 7, gid: 8 },
  { name: "./etc/shadow", content: "secret", mode: 0o0 },
  { name: "./etc/gone", content: "soon" },
  { name: "./etc/empty" },
  folder("opaque/", { mode: 0o1777, mtime: 1_400_000_000 }),
  { name: "opaque/old", content: "old" },
  folder("opaque/inner/"),
  { name: "opaque/inner/old", content: "old" },
  folder("swap-to-file/"),
  { name: "swap-to-file/child", content: "child" },
  { name: "swap-to-folder", content: "file" },
  folder("usr/"),
  folder("usr/lib/", { mode: 0o2775, gid: 50 }),
  { name: "usr/lib/in-setgid", content: "x" },
  folder("usr/lib/sub/", { gid: 0 }),
  { name: "lib", type: "2", linkName: "usr/lib" },
  { name: "absolute", type: "2", linkName: "/etc" },
  { name: "dangling", type: "2", linkName: "../../../outside" },
  { name: "suid", content: "#!", mode: 0o6755, uid: 1, gid: 2 },
  { name: "hard-a", content: "linked", uid: 9 },
  { name: "hard-b", type: "1", linkName: "hard-a", uid: 9 },
  { name: "hard-to-link", type: "1", linkName: "lib" },
  { name: longName, content: "pax" },
  { name: `${longName}-gnu`, content: "gnu", gnu: true },
  { name: "caf\u00c3\u00a9", content: "utf-8" },
  { name: "latin-\u00e9\u00ff", content: "not utf-8" },
  { name: "big-owner", content: "o", pax: { uid: "3000000", gid: "3000001" } },
  { name: "duplicate", content: "first" },
  { name: "duplicate", content: "second, longer", mode: 0o600 },
  { name: "implied/parent/file", content: "no folder entries" },
  { name: "large", content: Buffer.alloc(700_000, "0123456789") },
];

const second: readonly RawEntry[] = [
  { name: "etc/.wh.gone" },
  { name: "etc/.wh.never-there" },
  folder("opaque/", { mode: 0o1777, mtime: 1_450_000_000 }),
  { name: "opaque/new", content: "new" },
  { name: "opaque/.wh..wh..opq" },
  { name: "swap-to-file", content: "file now" },
  folder("swap-to-folder/"),
  { name: "swap-to-folder/child", content: "folder now" },
  { name: "lib/through-link", content: "lands in usr/lib" },
  { name: "absolute/through-absolute", content: "lands in etc" },
  { name: "hard-across", type: "1", linkName: "hard-a", uid: 9 },
  { name: "usr/lib/sub/.wh.nothing" },
];

const third: readonly RawEntry[] = [
  { name: ".wh.implied" },
  { name: "implied", content: "a file in its place" },
  { name: ".wh.lib" },
  folder("lib/", { mode: 0o700 }),
  { name: "lib/own", content: "no link any more" },
  { name: "hard-a", content: "only one of the names changes", uid: 9 },
];

describe("an unpacked image", () => {
  const skip = missing({ root: true, programs: ["umoci", "skopeo"] });

  for (const compression of ["gzip", "zstd", "none"] satisfies Compression[]) {
    it(`is the tree that umoci makes of it (${compression})`, { skip }, async () => {
      using work = temporaryFolder();
      const layers = [base, second, third].map(tar);
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers, compression });
      // This umoci is older than zstd: it judges the same layers in gzip.
      const judged = path.join(work.path, "judged");
      writeLayout(judged, { layers, compression: compression === "zstd" ? "gzip" : compression });
      assertSame(await ours(work.path, layout), await umoci(work.path, judged));
    });
  }

  it("is the tree that umoci makes of layers that umoci made", { skip }, async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    await runCommand("umoci", ["init", "--layout", layout]);
    await runCommand("umoci", ["new", "--image", `${layout}:latest`]);
    await change(layout, work.path, (root) => {
      for (const name of ["a", "a/b", "a/b/c", "opaque", "kept"]) mkdirSync(path.join(root, name));
      for (const name of ["a/1", "a/b/2", "a/b/c/3", "opaque/4", "kept/5", "6"]) {
        writeFileSync(path.join(root, name), `content of ${name}`);
      }
      chmodSync(path.join(root, "kept"), 0o1770);
      chownSync(path.join(root, "kept/5"), 12, 34);
      linkSync(path.join(root, "6"), path.join(root, "a/six"));
      symlinkSync("a/b", path.join(root, "to-b"));
    });
    await change(layout, work.path, (root) => {
      rmSync(path.join(root, "a/b"), { recursive: true });
      rmSync(path.join(root, "6"));
      rmSync(path.join(root, "opaque"), { recursive: true });
      mkdirSync(path.join(root, "opaque"));
      writeFileSync(path.join(root, "opaque/new"), "new");
      writeFileSync(path.join(root, "a/b"), "a file now");
      utimesSync(path.join(root, "kept"), 1_300_000_000, 1_300_000_000);
    });
    await change(layout, work.path, (root) => {
      renameSync(path.join(root, "kept"), path.join(root, "moved"));
      rmSync(path.join(root, "to-b"));
      mkdirSync(path.join(root, "to-b"));
      writeFileSync(path.join(root, "to-b/real"), "a folder now");
    });
    assertSame(await ours(work.path, layout), await umoci(work.path, layout));
  });
});

async function ours(work: string, layout: string): Promise<readonly string[]> {
  const store = await openImageStore({
    root: path.join(work, "store"),
    logger: silentLogger,
    clock: systemClock,
  });
  const image = await store.importLayout(layout, parseReference("app"));
  assert.deepEqual(image.notes, []);
  return withoutUndescribedTimes(listTree(image.layers[0] ?? ""));
}

async function umoci(work: string, layout: string): Promise<readonly string[]> {
  const bundle = path.join(work, "bundle");
  await runCommand("umoci", ["unpack", "--image", `${layout}:latest`, bundle]);
  return withoutUndescribedTimes(listTree(path.join(bundle, "rootfs")));
}

async function change(layout: string, work: string, edit: (root: string) => void): Promise<void> {
  const bundle = path.join(work, "edited");
  await runCommand("umoci", ["unpack", "--image", `${layout}:latest`, bundle]);
  edit(path.join(bundle, "rootfs"));
  await runCommand("umoci", ["repack", "--image", `${layout}:latest`, bundle]);
  rmSync(bundle, { recursive: true });
}

/** umoci leaves the time of the root and of folders without an entry as they come. */
function withoutUndescribedTimes(lines: readonly string[]): readonly string[] {
  return lines.map((line) =>
    line.replace(/^(\S*) (.*) (\d+)$/, (whole, name: string, rest: string) =>
      name === "" || name.startsWith("long") ? `${name} ${rest}` : whole,
    ),
  );
}

/** Shows the lines that differ only; whole trees are long. */
function assertSame(actual: readonly string[], expected: readonly string[]): void {
  const extra = actual.filter((line) => !expected.includes(line));
  const lacking = expected.filter((line) => !actual.includes(line));
  assert.deepEqual({ extra, lacking }, { extra: [], lacking: [] });
  assert.equal(actual.length, expected.length);
}
