import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { describe, it } from "node:test";

describe("runCommand()", () => {
  it("fails, and does not end its program, when no descriptor is left", () => {
    const file = path.join(import.meta.dirname, "run-command.ts");
    const script = `
      const { runCommand } = await import(${JSON.stringify(file)});
      const { openSync } = await import("node:fs");
      const fails = async () => await runCommand("true").then(() => "ran", (error) => error.code);
      try { for (;;) openSync("/dev/null", "r"); } catch {}
      const codes = [await fails(), await fails()];
      await new Promise((resolve) => setTimeout(resolve, 10));
      process.stdout.write(codes.join());`;
    const limited = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"';
    const { stdout, stderr } = spawnSync("sh", ["-c", limited, process.execPath, script]);
    assert.equal(stdout.toString(), "COMMAND_FAILED,COMMAND_FAILED", stderr.toString());
  });
});
