// Changes to a tree that verification detects: each kind, by anything that could write to it.
import assert from "node:assert/strict";
import { chmodSync, linkSync, lutimesSync, mkdirSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { startLayoutRegistry, tar, temporaryFolder, writeLayout } from "@kip/testing";
import { openImageStore, parseReference } from "../src/index.ts";
import { missing } from "./fixtures/missing.ts";

/** The access list "user::rwx,user:2:rwx,group::r-x,mask::rwx,other::r-x" in the kernel's form. */
const accessList =
  "\x02\0\0\0" +
  [
    "\x01\0\x07\0\xff\xff\xff\xff",
    "\x02\0\x07\0\x02\0\0\0",
    "\x04\0\x05\0\xff\xff\xff\xff",
    "\x10\0\x07\0\xff\xff\xff\xff",
    "\x20\0\x05\0\xff\xff\xff\xff",
  ].join("");
const setxattr = process.arch === "arm64" ? 6 : 189;

async function setAttribute(file: string, name: string, value: string): Promise<void> {
  const hex = Buffer.from(value, "latin1").toString("hex");
  const call = `my ($p, $n, $v) = ($ARGV[0], $ARGV[1], pack("H*", $ARGV[2])); my $l = length $v;
    syscall(${setxattr}, $p, $n, $v, $l, 0) == 0 or die "$n: $!"`;
  await runCommand("perl", ["-e", call, file, name, hex]);
}

const changes: Readonly<Record<string, (tree: string) => Promise<void> | void>> = {
  "/bin/sh": async (tree) =>
    await runCommand("/sbin/setcap", ["cap_setuid=ep", `${tree}/bin/sh`]).then(() => {}),
  "/bin": async (tree) => await setAttribute(`${tree}/bin`, "user.added", "1"),
  "/note": async (tree) => await setAttribute(`${tree}/note`, "user.kept", "other"),
  "/": async (tree) => await setAttribute(tree, "trusted.overlay.opaque", "y"),
  "/link": async (tree) => await setAttribute(`${tree}/link`, "trusted.of-a-link", "1"),
  "/deep/er/file": async (tree) =>
    await setAttribute(`${tree}/deep/er/file`, "system.posix_acl_access", accessList),
  "/deep/er": async (tree) =>
    await setAttribute(`${tree}/deep/er`, "system.posix_acl_default", accessList),
  "/deep/time": (tree) => lutimesSync(`${tree}/deep/time`, 1, 1),
  "/deep/mode": (tree) => chmodSync(`${tree}/deep/mode`, 0o4755),
  "/deep/names": (tree) => linkSync(`${tree}/deep/names`, path.join(tree, "../../outside")),
  "/deep": (tree) => {
    mkdirSync(`${tree}/deep/more`);
  },
};

describe("verify()", { skip: missing({ root: true, programs: ["perl"] }) }, () => {
  it("finds and mends every change of a tree", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    const names = ["bin/sh", "note", "deep/er/file", "deep/time", "deep/mode", "deep/names"];
    const entries = names.map((name) => ({
      name,
      content: name,
      mode: 0o775,
      pax: { "SCHILY.xattr.user.kept": "kept" },
    }));
    const link = { name: "link", type: "2", linkName: "note" };
    writeLayout(layout, { layers: [tar([...entries, link])] });
    await using registry = await startLayoutRegistry(layout);
    const { host } = registry;
    const options = { registries: [{ host, endpoint: `http://${host}` }] };
    const root = path.join(work.path, "store");
    const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
    const reference = parseReference(`${host}/app`);
    const [tree = ""] = (await store.pull(reference, options)).layers;
    assert.equal(await store.verify(reference, options), undefined);
    for (const [place, change] of Object.entries(changes)) {
      await change(tree);
      assert.equal(await store.verify(reference, options), place);
      assert.equal(await store.verify(reference, options), undefined, place);
    }
  });
});
