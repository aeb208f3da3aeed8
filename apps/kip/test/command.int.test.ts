import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, statSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";

const kip = path.join(import.meta.dirname, "../bin/kip");
const skip = process.getuid?.() === 0 ? false : "kip up is for root only";

describe("kip up", { skip }, () => {
  it("makes its folders with modes of its own, whatever the caller's umask", () => {
    using folder = temporaryFolder();
    for (const umask of ["000", "022", "077"]) {
      const cache = path.join(folder.path, umask);
      // The command fails soon after it has created the first folder, because there are no programs.
      const flags = ["--prepare", `--cache-dir=${cache}`, `--binaries-dir=${folder.path}`];
      const script = 'umask "$1"; shift; exec "$@"';
      const args = ["-c", script, "sh", umask, kip, "up", ...flags];
      const { status, stderr } = spawnSync("sh", args, { encoding: "utf8", timeout: 60_000 });
      assert.equal(status, 1);
      assert.match(stderr, /has no program/);
      assert.equal((statSync(cache).mode & 0o777).toString(8), "755");
    }
  });
});

describe("kip", () => {
  it("says what is missing in a checkout without its npm packages", () => {
    using folder = temporaryFolder();
    const copy = path.join(folder.path, "apps/kip/bin/kip");
    cpSync(kip, copy);
    const { status, stderr } = spawnSync(copy, ["version"], { encoding: "utf8" });
    assert.equal(status, 1);
    assert.match(stderr, /^kip: Cannot run .*\n {5}Run npm ci in \/.*\n$/);
  });

  const print = (...args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(kip, args, { encoding: "utf8" });
    assert.equal(status, 0, `kip ${args.join(" ")}: ${stderr}`);
    return stdout;
  };
  const namesIn = (help: string): readonly string[] =>
    [...help.matchAll(/^ {2}kip ([a-z-]+) /gm)].map(([, name = ""]) => name);

  it("lists its commands first, and then the options of the provider", () => {
    const list = print("help");
    assert.equal(print(), list);
    assert.deepEqual(namesIn(list).slice(0, 3), ["up", "down", "status"]);
    assert.match(list, /\nkipctl, or kubectl kip, /);
    for (const flag of ["--help", "-h"]) {
      const whole = print(flag);
      assert.ok(whole.startsWith(`${list}\nUsage: kip [options]\n`));
      assert.match(whole, /\n {2}--provider-config VALUE /);
    }
  });

  it("has help with an example for each of its commands", () => {
    for (const name of namesIn(print("help"))) {
      const help = print(name, "--help");
      assert.match(help, new RegExp(`^Usage: kip ${name}`), name);
      assert.match(help, new RegExp(`\nExample: kip ${name}`), name);
    }
    assert.equal(print("help", "price"), print("price", "--help"));
  });
});
