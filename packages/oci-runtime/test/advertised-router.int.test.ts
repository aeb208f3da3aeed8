// Makes network namespaces: needs root.
import assert from "node:assert/strict";
import path from "node:path";
import { it } from "node:test";
import { runCommand } from "@kip/base";

const skip = process.getuid?.() === 0 ? false : "needs root";
const program = path.join(import.meta.dirname, "support/forwarding-cell.ts");

it(
  "a cell that forwards for its pod keeps the router that its network advertises",
  { skip, timeout: 60_000 },
  async () => {
    const { stdout } = await runCommand("/usr/bin/unshare", ["--net", process.execPath, program]);
    const said = new Map(
      stdout
        .trim()
        .split("\n")
        .map((line) => [line.split(" ", 1)[0], line] as const),
    );
    for (const when of ["told", "forwards", "again"])
      assert.match(said.get(when) ?? "", /default via fe80::\S+ dev eth0 proto ra/, stdout);
    assert.match(said.get("pod") ?? "", /fd00::a:2 .*dev kip-pod/, stdout);
    assert.match(said.get("machine") ?? "", /eth0.* fd00::a:1\/128/, stdout);
  },
);
