import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isWholeRun } from "@kip/testing";
import {
  cluster,
  eventually,
  machineProcesses,
  providerProcess,
  run,
  shellPod,
  stateDir,
  type Cluster,
} from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const launches = Number(process.env["KIP_CHURN_LAUNCHES"] ?? 200);
const seed = Number(process.env["KIP_CHURN_SEED"] ?? Date.now() % 2 ** 31);
const atOnce = 4;

describe(
  "launches and terminations in random order, kip killed meanwhile",
  { skip: !isWholeRun && "takes minutes: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    before(async () => {
      kube = await cluster("churn");
    });

    it(`leaves nothing after ${launches} launches`, { timeout: 3_600_000 }, async () => {
      console.log(`KIP_CHURN_SEED=${seed}`);
      const random = generator(seed);
      const living: string[] = [];
      const counts = { launched: 0, ready: 0, terminated: 0, kills: 0 };
      while (counts.launched < launches || living.length > 0) {
        const mayLaunch = counts.launched < launches && living.length < atOnce;
        if (mayLaunch && (living.length === 0 || random() < 0.55)) {
          const name = `churn-${counts.launched++}`;
          living.push(name);
          await kube.apply(shellPod(name, "echo started; exec sleep 100000"));
        } else {
          const [name = ""] = living.splice(Math.floor(random() * living.length), 1);
          // Some pods run before they are deleted. Others are deleted in whatever step they are.
          if (random() < 0.4) {
            await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=300s");
            counts.ready++;
          }
          const grace = random() < 0.3 ? ["--grace-period=0", "--force"] : [];
          await kube.ok("delete", "pod", name, "--wait=false", ...grace);
          counts.terminated++;
        }
        // A random moment is intended, so this does not wait for an event.
        await sleep(random() * 400);
        if (random() < 0.15) {
          await killProvider();
          counts.kills++;
        }
      }
      await eventually(
        "all pods to go",
        async () => (await kube.ok("get", "pods", "-o", "name")).trim() === "",
        300_000,
      );
      await eventually(
        "all Cells to go",
        async () => (await kube.ok("get", "cells", "-o", "name")).trim() === "",
        300_000,
      );
      const left = { ...(await leftovers()) };
      console.log(JSON.stringify({ seed, ...counts, ...ledger(), left }, undefined, 1));
      assert.deepEqual(left, { processes: [], taps: [], machineFolders: [], waiting: [] });
    });

    async function killProvider(): Promise<void> {
      await eventually("a provider", () => {
        try {
          process.kill(providerProcess(), "SIGKILL");
          return true;
        } catch {
          return false; // it is restarting after the previous kill
        }
      });
    }
  },
);

/** Numbers from 0 to 1, which depend only on the seed (the mulberry32 generator). */
function generator(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Counts the driver's log messages: machines started, by kind of start, and machines ended. */
function ledger(): Readonly<Record<string, number>> {
  const log = readFileSync(`${stateDir}/state/logs/kip.log`, "utf8");
  const count = (pattern: RegExp): number => [...log.matchAll(pattern)].length;
  return {
    machinesStarted: count(/"msg":"Machine started"/g),
    fromTemplate: count(/"msg":"Machine started".*"startedFrom":"(image-)?template"/g),
    machinesTerminated: count(/"msg":"Machine terminated"/g),
    providerStarts: count(/"msg":"Started the provider"/g),
  };
}

/** Everything that a machine could leave behind. */
async function leftovers(): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const links = await run("nsenter", [`--net=/run/kip/${own.name}/netns`, "ip", "-o", "link"]);
  const cells = path.join(stateDir, "state", "cells");
  const names = (folder: string): readonly string[] =>
    readdirSync(path.join(cells, folder), { withFileTypes: true }).map(({ name }) => name);
  return {
    processes: machineProcesses(),
    taps: [...links.stdout.matchAll(/^\d+: (cell\d+)/gm)].map(([, name]) => name),
    machineFolders: names("machines"),
    waiting: names("queue"),
  };
}
