import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { K8sError } from "../errors.ts";
import { runPlugin } from "./exec-plugin.ts";

const { signal } = new AbortController();
const env = { PATH: process.env["PATH"] };

describe("runPlugin()", () => {
  const starts = [
    ["a path below a file", { command: [path.join(import.meta.filename, "x")], env }, /ENOTDIR/],
    [
      "a variable that is too long",
      { command: ["true"], env: { ...env, A: "x".repeat(300_000) } },
      /E2BIG/,
    ],
    ["an argument with a zero byte", { command: ["true", "hidden\0"], env }, /not valid/],
  ] as const;
  for (const [name, run, message] of starts)
    it(`fails as for other failures of the plugin with ${name}, and quotes no argument`, async () => {
      await assert.rejects(runPlugin({ ...run, installHint: "Install it", signal }), (error) => {
        assert.ok(K8sError.is(error, "K8S_CREDENTIALS_FAILED"));
        assert.match(error.message, message);
        assert.equal(error.remedy, "Install it");
        assert.doesNotMatch(inspect(error), /hidden/);
        return true;
      });
    });

  it("fails, and does not end its program, when no descriptor is left", () => {
    const script = `
      const { runPlugin } = await import(${JSON.stringify(path.join(import.meta.dirname, "exec-plugin.ts"))});
      const { openSync } = await import("node:fs");
      const { signal } = new AbortController();
      try { for (;;) openSync("/dev/null", "r"); } catch {}
      const code = await runPlugin({ command: ["true"], env: process.env, signal }).catch((error) => error.code);
      await new Promise(setImmediate);
      process.stdout.write(String(code));`;
    const limited = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"';
    const { stdout, stderr } = spawnSync("sh", ["-c", limited, process.execPath, script]);
    assert.equal(stdout.toString(), "K8S_CREDENTIALS_FAILED", stderr.toString());
  });
});
