// Compares trees with those of umoci, an independent unpacker.
import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  openSync,
  closeSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { tar, temporaryFolder, writeLayout, type Compression, type RawEntry } from "@kip/testing";
import { openImageStore, parseReference } from "../src/index.ts";
import { missing } from "./fixtures/missing.ts";
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
  { name: "./etc/ancient", pax: { mtime: "-86400" } },
  { name: "./etc/taken-back", content: "x", uid: 5, pax: { path: "", uid: "", size: "" } },
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
  { name: "usr/absolute", type: "2", linkName: "/etc" },
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
  { name: "usr/absolute/from-below", content: "lands in etc, too" },
  { name: "hard-across", type: "1", linkName: "hard-a", uid: 9 },
  { name: "usr/lib/sub/.wh.nothing" },
];

const third: readonly RawEntry[] = [
  { name: ".wh.implied" },
  { name: "implied", content: "a file in its place" },
  { name: ".wh.lib" },
  folder("lib/", { mode: 0o700 }),
  { name: "lib/own", content: "a file now" },
  { name: "hard-a", content: "only one of the names changes", uid: 9 },
];

const capability = "\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const xattr = (name: string, value: string): Record<string, string> => ({
  [`SCHILY.xattr.${name}`]: value,
});

const accessFor = (tag: number, permissions: number): string =>
  String.fromCharCode(tag, 0, permissions, 0, 255, 255, 255, 255);
/** The owner may do everything, and others nothing. */
const accessList = `\x02\0\0\0${accessFor(1, 7)}${accessFor(4, 0)}${accessFor(32, 0)}`;

const special: readonly (readonly RawEntry[])[] = [
  [
    folder("./", { pax: xattr("user.root", "of the root") }),
    folder("bin/", { pax: xattr("user.kept", "1") }),
    folder("twice/", { pax: xattr("user.first", "1") }),
    folder("hands-on/", { pax: xattr("system.posix_acl_default", accessList) }),
    folder("handed-on/", { pax: xattr("system.posix_acl_default", accessList) }),
    { name: "hands-on/first", content: "x", mode: 0o644 },
    {
      name: "bin/ping",
      content: "#!",
      mode: 0o755,
      uid: 3,
      pax: xattr("security.capability", capability),
    },
    { name: "bin/linked", type: "1", linkName: "bin/ping" },
    { name: "note", content: "n", pax: { ...xattr("user.a", "b\0c=d\n"), ...xattr("user.x", "") } },
    { name: "replaced", pax: xattr("user.old", "old") },
    { name: "replaced", content: "now without" },
    { name: "folder-to-link/file", pax: xattr("user.old", "old") },
    { name: "link", type: "2", linkName: "note", pax: xattr("trusted.of-a-link", "yes") },
    { name: "bin/ping-2", type: "1", linkName: "bin/linked" },
    folder("dev/", { mtime: 1_400_000_000 }),
    { name: "dev/null", type: "3", mode: 0o666, major: 1, minor: 3 },
    { name: "dev/big", type: "4", mode: 0o640, uid: 5, gid: 6, major: 259, minor: 70_000 },
    { name: "dev/pipe", type: "6", mode: 0o1606, uid: 7, mtime: 1_300_000_000 },
    { name: "dev/twice", type: "6" },
    { name: "dev/twice", type: "3", major: 1, minor: 5 },
    { name: "dev/file", content: "in between" },
    { name: "dev/pipe-2", type: "6", pax: xattr("trusted.of-a-pipe", "yes") },
    { name: "null", type: "1", linkName: "dev/null" },
  ],
  [
    folder("twice/", { pax: xattr("user.second", "2") }),
    folder("hands-on/", { pax: xattr("system.posix_acl_default", accessList) }),
    { name: "hands-on/second", content: "x", mode: 0o644 },
    folder("hands-on/folder/", { mode: 0o755 }),
    folder("handed-on/"),
    { name: "handed-on/file", content: "x", mode: 0o644 },
    folder("bin/"),
    { name: "bin/ping", content: "another", mode: 0o755 },
    { name: "folder-to-link", type: "2", linkName: "twice" },
    { name: "dev/pipe", content: "a file now" },
    { name: "note", type: "6" },
  ],
];

describe("an unpacked image", () => {
  const skip = missing({ root: true, programs: ["umoci", "skopeo"] });

  for (const compression of ["gzip", "zstd", "none"] satisfies Compression[]) {
    it(`is the tree that umoci makes of it (${compression})`, { skip }, async () => {
      using work = temporaryFolder();
      const layers = [base, second, third].map(tar);
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers, compression });
      // This version of umoci does not support zstd, so it gets the same layers in gzip.
      const judged = path.join(work.path, "judged");
      writeLayout(judged, { layers, compression: compression === "zstd" ? "gzip" : compression });
      assertSame(await ours(work.path, layout), await umoci(work.path, judged));
    });
  }

  it("has the attributes and special files that umoci makes", { skip }, async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers: special.map(tar) });
    assertSame(await ours(work.path, layout), await umoci(work.path, layout));
  });

  for (const format of ["gnu", "posix 0.0", "posix 0.1", "posix 1.0"]) {
    it(`has the holes of sparse files (GNU tar, ${format})`, { skip }, async () => {
      using work = temporaryFolder();
      const source = path.join(work.path, "source");
      mkdirSync(source);
      writeSparse(path.join(source, "holes"), 40);
      writeSparse(path.join(source, "few"), 2);
      truncateSync(path.join(source, "few"), 5_000_000);
      writeFileSync(path.join(source, "empty"), "");
      truncateSync(path.join(source, "empty"), 1_000_000);
      writeFileSync(path.join(source, "ordinary"), "nothing special");
      const [name = "", version] = format.split(" ");
      const archive = path.join(work.path, "layer.tar");
      const options = [
        "--sparse",
        `--format=${name}`,
        ...(version ? [`--sparse-version=${version}`] : []),
      ];
      await runCommand("tar", [...options, "-cf", archive, "-C", source, "."]);
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers: [readFileSync(archive)] });
      // This version of umoci does not support GNU's own form, so the source itself is the reference.
      const judged =
        name === "gnu" ? withoutUndescribedTimes(listTree(source)) : await umoci(work.path, layout);
      assertSame(await ours(work.path, layout), judged);
      const [tree = ""] = readdirSync(path.join(work.path, "store/trees"));
      const { size, blocks } = statSync(path.join(work.path, "store/trees", tree, "holes"));
      assert.ok(blocks * 512 < size / 2, "the holes were written");
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
    makesDevices: true,
    logger: silentLogger,
    clock: systemClock,
  });
  const image = await store.importLayout(layout, parseReference("app"));
  assert.deepEqual(image.notes, []);
  const tree = image.layers[0] ?? "";
  return withoutUndescribedTimes([...listTree(tree), ...(await attributesOf(tree))]);
}

async function umoci(work: string, layout: string): Promise<readonly string[]> {
  const bundle = path.join(work, "bundle");
  await runCommand("umoci", ["unpack", "--image", `${layout}:latest`, bundle]);
  const tree = path.join(bundle, "rootfs");
  return withoutUndescribedTimes([...listTree(tree), ...(await attributesOf(tree))]);
}

/** Extended attributes, one line each. Empty if the machine cannot show them. */
async function attributesOf(tree: string): Promise<readonly string[]> {
  const options = ["--recursive", "--physical", "--no-dereference", "--dump", "--match=-"];
  if (missing({ root: true, programs: ["getfattr"] }) !== false) return [];
  const { stdout } = await runCommand("getfattr", [...options, "--encoding=hex", "."], {
    cwd: tree,
  });
  return stdout.split("\n\n").flatMap((block) => {
    const [file = "", ...lines] = block.trim().split("\n");
    return lines.map((line) => `${file}: ${line}`);
  });
}

/** Writes a file with this many runs of data, with holes of 256 KiB in between. */
function writeSparse(file: string, runs: number): void {
  const fd = openSync(file, "w");
  for (let run = 0; run < runs; run++) writeSync(fd, `run ${run}`.repeat(700), run * 262_144);
  closeSync(fd);
}

async function change(layout: string, work: string, edit: (root: string) => void): Promise<void> {
  const bundle = path.join(work, "edited");
  await runCommand("umoci", ["unpack", "--image", `${layout}:latest`, bundle]);
  edit(path.join(bundle, "rootfs"));
  await runCommand("umoci", ["repack", "--image", `${layout}:latest`, bundle]);
  rmSync(bundle, { recursive: true });
}

/** umoci does not set the time of the root and of folders without an entry. */
function withoutUndescribedTimes(lines: readonly string[]): readonly string[] {
  return lines.map((line) =>
    line.replace(/^(\S*) (.*) (\d+)$/, (whole, name: string, rest: string) =>
      name === "" || name.startsWith("long") ? `${name} ${rest}` : whole,
    ),
  );
}

/** Only shows the lines that differ, because whole trees are long. */
function assertSame(actual: readonly string[], expected: readonly string[]): void {
  const extra = actual.filter((line) => !expected.includes(line));
  const lacking = expected.filter((line) => !actual.includes(line));
  assert.deepEqual({ extra, lacking }, { extra: [], lacking: [] });
  assert.equal(actual.length, expected.length);
}
