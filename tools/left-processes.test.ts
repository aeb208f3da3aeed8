import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { endLeftProcesses, testRunVariable } from "./left-processes.ts";

describe("endLeftProcesses()", () => {
  it("ends the processes of its run and no others", async () => {
    const start = async (run: string) => {
      const env = { ...process.env, [testRunVariable]: run };
      // It prints after it has got its own name and environment.
      const child = spawn("sh", ["-c", "echo up; exec sleep 1000"], { env });
      await once(child.stdout, "data");
      return child;
    };
    const own = await start(`left-${process.pid}`);
    const foreign = await start(`right-${process.pid}`);
    const ended = once(own, "exit");
    const lines = endLeftProcesses(`left-${process.pid}`);
    assert.deepEqual(await ended, [null, "SIGKILL"]);
    assert.equal(lines.length, 1);
    assert.equal(foreign.exitCode ?? foreign.signalCode, null);
    foreign.kill("SIGKILL");
  });
});
