import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { controlGroupPath } from "../src/host/control-group.ts";
import { findProcesses } from "../src/host/processes.ts";
import { hostSnapshot } from "./support/host-snapshot.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";
import { programFile } from "./support/program-file.ts";

const name = "kiptcrash";
const test = await prepareTestCloud(name, 3);
after(() => test.remove());

const request = machineRequest({ name: "crashes" });
const machines = path.join(test.options.stateDir, "machines");
const shims = path.join(test.folder, "shims");
const counter = path.join(test.folder, "count");

/** Programs whose start and end are the boundaries between the local cloud's steps. */
const programs = [
  "ip",
  "nft",
  "sysctl",
  "unshare",
  "nsenter",
  "umount",
  "flock",
  "qemu-img",
  "genisoimage",
];

// Some dozens of process starts, which take long on a busy machine.
const timeout = 900_000;

describe("QemuCloud after SIGKILL", { timeout: 4 * timeout }, () => {
  it("launches once, wherever the launch was killed", { timeout }, async () => {
    await prepareShims();
    const kills = await killEverywhere("after", { launch: request }, async (where) => {
      await using cloud = await test.open();
      // Kip waits for machines that are already starting, and launches again if there is none.
      const [found] = await cloud.list();
      if (found?.state === "pending") {
        await assert.rejects(cloud.waitForRunning(found.id), where);
        assert.deepEqual(await cloud.list(), [], where);
      }
      const instance = await cloud.launch(request);
      assert.equal(instance.state, "running", where);
      assert.deepEqual(await cloud.list(), [instance], where);
      const pidFile = path.join(machines, instance.id, "qemu.pid");
      assert.equal((await findProcesses(pidFile)).length, 1, where);
      await cloud.terminate(instance.id);
      assert.deepEqual(await readdir(machines), [], where);
      assert.deepEqual(await controlGroups(), [], where);
    });
    assert.ok(kills > 10, `killed at ${kills} places`);
  });

  it("makes the network whole, wherever that was killed", { timeout }, async () => {
    await prepareShims();
    const { range = "" } = test.options;
    await killEverywhere("before", { prepareNetwork: true }, async (where) => {
      await using cloud = await test.open({ internet: "auto" });
      await cloud.prepareNetwork();
      await cloud.removeNetwork();
      assert.deepEqual(await hostSnapshot(name, range), [], where);
    });
  });

  it("ends a machine whole, wherever its end was killed", { timeout }, async () => {
    await prepareShims();
    await using cloud = await test.open();
    const { id } = await cloud.launch(request);
    await killEverywhere("before", { terminate: id }, async (where) => {
      await using restarted = await test.open();
      await restarted.terminate(id);
      assert.deepEqual(await restarted.list(), [], where);
      assert.deepEqual(await readdir(machines), [], where);
      assert.deepEqual(await controlGroups(), [], where);
      await restarted.launch(request);
    });
    await cloud.terminate(id);
  });

  it("removes the network whole, wherever its removal was killed", { timeout }, async () => {
    await prepareShims();
    const { range = "" } = test.options;
    await killEverywhere("before", { removeNetwork: true }, async (where) => {
      await using cloud = await test.open({ internet: "auto" });
      await cloud.removeNetwork();
      assert.deepEqual(await hostSnapshot(name, range), [], where);
      await cloud.prepareNetwork();
    });
    await using cloud = await test.open();
    await cloud.removeNetwork();
  });
});

/**
 * Runs the act in a process that is killed before (or after) one of the programs that it starts: each third one, beginning with
 * one of the first three at random, or each one in a whole run. Ends when the act completes. Calls `check` after each of these
 * runs. Returns the number of programs that the act needs at least.
 */
async function killEverywhere(
  moment: "before" | "after",
  act: Readonly<Record<string, unknown>>,
  check: (where: string) => Promise<void>,
): Promise<number> {
  const step = isWholeRun ? 1 : 3;
  for (let nth = randomInt(step) + 1; nth < 200; nth += step) {
    await rm(counter, { recursive: true, force: true });
    await mkdir(counter);
    const settings = `kill_at=${nth} moment=${moment} counter=${counter} path=${process.env["PATH"]}`;
    await writeFile(path.join(shims, "settings"), settings);
    const script = path.join(import.meta.dirname, "support/act.ts");
    const child = spawn(
      process.execPath,
      [script, JSON.stringify({ options: test.options, ...act })],
      {
        env: {
          ...process.env,
          PATH: `${shims}:${process.env["PATH"]}`,
        },
        stdio: ["ignore", "ignore", "inherit"],
      },
    );
    const [code, signal] = await once(child, "exit");
    assert.ok(code === 0 || signal === "SIGKILL", `ended with ${code ?? signal}`);
    await check(`${moment} program ${nth}`);
    if (signal !== "SIGKILL") return nth - 1;
  }
  return assert.fail("the act never ends");
}

/** Control groups of machines. */
async function controlGroups(): Promise<readonly string[]> {
  const any = await controlGroupPath("any");
  const names = any === undefined ? [] : await readdir(path.dirname(any));
  return names.filter((each) => each.startsWith(`kip-${name}-i-`));
}

/** Replacements for these programs that kill the process that started the n-th of them. */
async function prepareShims(): Promise<void> {
  await mkdir(shims, { recursive: true });
  const starter = await readFile(programFile("kill-starter.sh"));
  for (const program of programs) {
    await writeFile(path.join(shims, program), starter);
    await chmod(path.join(shims, program), 0o755);
  }
}
