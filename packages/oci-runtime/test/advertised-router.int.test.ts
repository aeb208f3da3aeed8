// Makes network namespaces: needs root.
import assert from "node:assert/strict";
import path from "node:path";
import { it } from "node:test";
import { runCommand } from "@kip/base";

const skip = process.getuid?.() === 0 ? false : "needs root";
const support = path.join(import.meta.dirname, "support");

/** Output of a program in a separate network, by the first word of each line. */
async function said(
  program: string,
  ...args: readonly string[]
): Promise<(word: string) => string> {
  const file = path.join(support, program);
  const words = ["--net", "--mount", process.execPath, file, ...args];
  const { stdout } = await runCommand("/usr/bin/unshare", words);
  const lines = stdout.trim().split("\n");
  return (word) => lines.find((line) => line.split(" ", 1)[0] === word) ?? `no ${word}: ${stdout}`;
}

it(
  "a cell that forwards for its pod keeps the router that its network advertises",
  { skip, timeout: 60_000 },
  async () => {
    const lineOf = await said("forwarding-cell.ts");
    for (const when of ["told", "forwards", "again"])
      assert.match(lineOf(when), /default via fe80::\S+ dev eth0 proto ra/);
    assert.match(lineOf("pod"), /fd00::a:2 .*dev kip-pod/);
    assert.match(lineOf("machine"), /eth0.* fd00::a:1\/128/);
  },
);

for (const [family, known] of [
  ["ipv4", "unknown"],
  ["ipv6", "unknown"],
  ["ipv6", "known"],
] as const)
  it(
    `only the router of the network becomes that of a cell (${family}, ${known} before)`,
    { skip, timeout: 60_000 },
    async () => {
      const lineOf = await said("advertising-pod.ts", family, known);
      assert.match(lineOf("routers"), /^routers default via fe80::900d dev eth0 [^:]*$/);
      assert.doesNotMatch(lineOf("cable"), /2001:/);
      if (family === "ipv6") assert.match(lineOf("connection"), / fd00::a:2$/);
      else assert.equal(lineOf("cable").trim(), "cable");
    },
  );
