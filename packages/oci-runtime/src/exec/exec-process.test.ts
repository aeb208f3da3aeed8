import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { OciProcess } from "../bundle/oci-spec.ts";
import { execSpec } from "./exec-process.ts";
import { terminalCommand } from "./terminal.ts";

const main: OciProcess = {
  terminal: false,
  user: { uid: 33, gid: 33, additionalGids: [] },
  args: ["nginx"],
  env: ["PATH=/bin", "A=1"],
  cwd: "/srv",
  capabilities: { bounding: ["CAP_KILL"], effective: ["CAP_KILL"], permitted: ["CAP_KILL"] },
  noNewPrivileges: true,
  oomScoreAdj: 900,
  rlimits: [],
};

describe("execSpec()", () => {
  it("gives a process the container's identity, rights and environment", () => {
    assert.deepEqual(execSpec(main, { command: ["ls"] }, false), { ...main, args: ["ls"] });
  });

  it("lets the call's environment win and names the terminal", () => {
    const { env, terminal } = execSpec(main, { command: ["sh"], env: ["A=2"] }, true);
    assert.deepEqual(env, ["PATH=/bin", "TERM=xterm", "A=2"]);
    assert.equal(terminal, true);
    assert.deepEqual(execSpec(main, { command: ["sh"], env: ["TERM=vt100"] }, true).env, [
      "PATH=/bin",
      "A=1",
      "TERM=vt100",
    ]);
  });
});

describe("terminalCommand()", () => {
  it("CVE-2024-9042, CVE-2023-3676: quotes what a shell would take apart", () => {
    assert.equal(
      terminalCommand(["/usr/bin/crun", "--root=/run/a b", "it's"]).at(-1),
      String.raw`exec /usr/bin/crun '--root=/run/a b' 'it'\''s'`,
    );
  });

  it("CVE-2024-9042, CVE-2023-3676: has a shell take every word for a word", () => {
    const word = fc.string({
      unit: fc.constantFrom("'", '"', "$", "`", "\\", "\n", ";", "&", " ", "*", "é"),
    });
    const words = fc.array(word, { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(words, (some) => {
        const line = terminalCommand(["/usr/bin/printf", String.raw`%s\0`, ...some]).at(-1) ?? "";
        const { stdout } = spawnSync("sh", ["-c", line]);
        assert.equal(stdout.toString(), some.map((each) => `${each}\0`).join(""));
      }),
      { numRuns: 25 },
    );
  });
});
