import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { runCommand } from "./run-command.ts";

describe("runCommand()", () => {
  for (const program of ["exec sleep 60", "exit 0"]) {
    it(`fails in time when a child of its program keeps the output open (${program})`, async () => {
      using folder = temporaryFolder();
      const started = path.join(folder.path, "pid");
      const script = `sleep 60 & echo $! > "$0"; ${program}`;
      const running = runCommand("sh", ["-c", script, started], { timeoutMs: 300 });
      const late = pause(20_000);
      const code = await Promise.race([running.then(() => "ran", codeOf), late.promise]);
      late.stop();
      process.kill(Number(await readFile(started, "utf8")), "SIGKILL");
      assert.equal(code, "COMMAND_FAILED");
    });
  }

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

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code;
}

/** What a run that never ends is compared with. */
function pause(ms: number): { readonly promise: Promise<string>; readonly stop: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>();
  const timer = setTimeout(() => resolve("still running"), ms);
  return { promise, stop: () => clearTimeout(timer) };
}
