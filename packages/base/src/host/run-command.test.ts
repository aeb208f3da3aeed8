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

  it("shows the last lines of a program that fails, and no more than a part of a long one", async () => {
    const messageOf = async (script: string): Promise<string> =>
      await runCommand("sh", ["-c", script]).then(
        () => assert.fail("it ran"),
        (error: Error) => error.message,
      );
    const lines = await messageOf("for n in 1 2 3 4 5 6 7; do echo line $n; done; exit 3");
    assert.match(lines, /exit code 3: line 3; line 4; line 5; line 6; line 7$/);
    const long = await messageOf("yes | head -c 1000000 | tr -d '\\n'; echo the end; exit 1");
    assert.match(long, /the end$/);
    assert.ok(long.length < 2000, `${long.length} characters`);
  });

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

/** A promise to compare with a run that never ends. */
function pause(ms: number): { readonly promise: Promise<string>; readonly stop: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>();
  const timer = setTimeout(() => resolve("still running"), ms);
  return { promise, stop: () => clearTimeout(timer) };
}
