// Extended attributes of files after an import, as read from the kernel.
import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { tar, temporaryFolder, writeLayout, type RawEntry } from "@kip/testing";
import { missing } from "../../test/fixtures/missing.ts";
import { openImageStore, parseReference } from "../index.ts";
import { isTakenAttribute } from "./special-entries.ts";

/** cap_net_raw=ep, version 2 of the kernel's structure. */
const capability = "\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/** A file with capabilities, and with another attribute, of which 350 are more than wait in memory. */
const program = (name: string): RawEntry => ({
  name,
  content: "x",
  uid: 1,
  pax: { "SCHILY.xattr.security.capability": capability, "SCHILY.xattr.user.f": "f".repeat(3000) },
});

async function countCapabilities(...layers: readonly (readonly RawEntry[])[]): Promise<number> {
  using work = temporaryFolder();
  const layout = path.join(work.path, "layout");
  writeLayout(layout, { layers: layers.map(tar) });
  const root = path.join(work.path, "store");
  const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
  const image = await store.importLayout(layout, parseReference("app"));
  assert.deepEqual(image.notes, []);
  const env = { PATH: "/usr/sbin:/sbin:/usr/bin" };
  const { stdout } = await runCommand("getcap", ["-r", image.layers[0] ?? ""], { env });
  return stdout.split("\n").filter((line) => line.endsWith(" cap_net_raw=ep")).length;
}

describe("file capabilities", { skip: missing({ root: true, programs: ["perl"] }) }, () => {
  it("outlive content and owner of their file, however many attributes wait", async () => {
    const programs = Array.from({ length: 800 }, (_, index) => program(`${index}`));
    assert.equal(await countCapabilities(programs), 800);
  });

  it("are those of all names of a file, in later layers too", async () => {
    const programs = Array.from({ length: 400 }, (_, index) => program(`${index}`));
    const link = (name: string): RawEntry => ({ name, type: "1", linkName: "399" });
    assert.equal(await countCapabilities([...programs, link("a")], [link("b")]), 402);
  });
});

describe("isTakenAttribute()", () => {
  it("leaves out what steers overlays and the host's security modules", () => {
    const taken = ["user.a", "trusted.a", "security.capability", "system.posix_acl_access"];
    assert.deepEqual(taken.filter(isTakenAttribute), taken);
    const leftOut = [
      "trusted.overlay.opaque",
      "trusted.overlay.redirect",
      "user.overlay.whiteout",
      "security.selinux",
      "security.ima",
      "system.nfs4_acl",
      "user.a\0trusted.overlay.opaque",
      "user.",
      "",
    ];
    assert.deepEqual(leftOut.filter(isTakenAttribute), []);
  });
});
