import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempDisposableSync, readFileSync, watch, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";

describe("run-tests", () => {
  it("ends what its tests have started when it is interrupted", { timeout: 60_000 }, async () => {
    using folder = mkdtempDisposableSync(path.join(tmpdir(), "run-tests-"));
    const file = path.join(folder.path, "hanging.test.mjs");
    const pidFile = path.join(folder.path, "pid");
    writeFileSync(
      file,
      `import { spawn } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { it } from "node:test";
it("hangs", async () => {
  const child = spawn("sleep", ["1000"], { detached: true, stdio: "ignore" });
  child.unref();
  writeFileSync("${pidFile}.new", String(child.pid));
  renameSync("${pidFile}.new", "${pidFile}");
  await new Promise((resolve) => setTimeout(resolve, 1_000_000));
});`,
    );
    const watcher = watch(folder.path);
    const runner = runUnit(file, { TMPDIR: folder.path });
    while (!existsSync(pidFile)) await once(watcher, "change");
    watcher.close();
    const pid = Number(readFileSync(pidFile, "utf8"));
    const ended = once(runner, "exit");
    runner.kill("SIGINT");
    try {
      assert.deepEqual(await ended, [130, null]);
      assert.equal(isRunning(pid), false);
    } finally {
      if (isRunning(pid)) process.kill(pid, "SIGKILL");
    }
  });

  it("ends a file that does not end after its tests", { timeout: 60_000 }, async () => {
    using folder = mkdtempDisposableSync(path.join(tmpdir(), "run-tests-"));
    const file = path.join(folder.path, "busy.test.mjs");
    writeFileSync(
      file,
      `import { it } from "node:test";
it("passes", () => void setInterval(() => {}, 1000));`,
    );
    const runner = runUnit(file, { TMPDIR: folder.path, KIP_TEST_GRACE_MS: "1" });
    const [[status], output] = await Promise.all([once(runner, "exit"), text(runner.stdout)]);
    assert.equal(status, 1);
    assert.match(output, /busy\.test\.mjs still runs .* after its tests, by: .*Timeout/);
    assert.match(output, /\n1 passed, 1 failed, 0 skipped\n$/);
  });
});

function runUnit(file: string, variables: Record<string, string>) {
  // With this variable, Node would take the inner run for one of its own test files and skip it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const script = path.join(import.meta.dirname, "run-tests.ts");
  return spawn(process.execPath, [script, "unit", file], {
    env: { ...env, ...variables },
    stdio: ["ignore", "pipe", "ignore"],
  });
}

function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
