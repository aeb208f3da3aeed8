import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { systemClock } from "../clock.ts";
import { endProcesses, type EndProcessesOptions } from "./end-processes.ts";
import { identifyProcess, isProcessRunning } from "./processes.ts";

/** A shell that reports when it is ready, and ends after a minute. */
async function startShell(script = ""): Promise<ChildProcess & { readonly pid: number }> {
  const child = spawn("sh", ["-c", `${script} echo ready; exec sleep 60`]);
  if (child.pid === undefined) throw new Error("no shell");
  await once(child.stdout, "data");
  return Object.assign(child, { pid: child.pid });
}

const living = (...pids: readonly number[]): EndProcessesOptions => ({
  find: async () => await Promise.resolve(pids.filter((pid) => identifyProcess(pid) !== undefined)),
  graceMs: 10_000,
  killLimitMs: 10_000,
  clock: systemClock,
});

describe("endProcesses()", { timeout: 30_000 }, () => {
  it("asks processes to end, and waits until they have", async () => {
    const child = await startShell();
    const ended = once(child, "exit");
    const { found, left, areAllGone } = await endProcesses(living(child.pid));
    assert.deepEqual([found, left, areAllGone], [[child.pid], [], true]);
    assert.deepEqual(await ended, [null, "SIGTERM"]);
  });

  it("kills those that ignore the request, when the time is over", async () => {
    const child = await startShell('trap "" TERM;');
    const ended = once(child, "exit");
    assert.deepEqual((await endProcesses({ ...living(child.pid), graceMs: 20 })).left, []);
    assert.deepEqual(await ended, [null, "SIGKILL"]);
  });

  it("asks the leaders alone, and kills the others if the leaders leave them", async () => {
    const [leader, other] = await Promise.all([startShell(), startShell()]);
    const ends = Promise.all([once(leader, "exit"), once(other, "exit")]);
    const leaders = async (): Promise<readonly number[]> => await Promise.resolve([leader.pid]);
    await endProcesses({ ...living(leader.pid, other.pid), leaders, graceMs: 200 });
    assert.deepEqual(await ends, [
      [null, "SIGTERM"],
      [null, "SIGKILL"],
    ]);
  });

  it("looks again until those that cannot be found are gone", async () => {
    const answers = [false, false, true];
    const killHidden = async (): Promise<boolean> => await Promise.resolve(answers.shift() ?? true);
    assert.equal((await endProcesses({ ...living(), killHidden })).areAllGone, true);
    assert.deepEqual(answers, []);
  });

  it("reports those that the kernel does not end", async () => {
    const missing = 2 ** 22 + 1; // above the highest ID there can be
    const find = async (): Promise<readonly number[]> => await Promise.resolve([missing]);
    const options = { ...living(), find, graceMs: 0, killLimitMs: 20 };
    const { left, areAllGone } = await endProcesses(options);
    assert.deepEqual([left, areAllGone], [[missing], false]);
  });
});

describe("isProcessRunning()", () => {
  it("is false for a process that has ended, and for a later one of its ID", async () => {
    const child = await startShell();
    const identity = identifyProcess(child.pid) ?? assert.fail("no process");
    assert.equal(isProcessRunning(identity), true);
    assert.equal(isProcessRunning({ ...identity, startTicks: "1" }), false);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(isProcessRunning(identity), false);
  });
});
