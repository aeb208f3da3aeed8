// A newer kip takes over from an older version: the control plane's data, the machines and their pods. No machine or pod is
// restarted.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import {
  cluster,
  clusterFlags,
  eventually,
  machineProcesses,
  providerProcess,
  removeCluster,
  run,
  shellPod,
  upFlags,
  type Cluster,
} from "./cluster.ts";
import { isWholeRun, olderVersion, unpackVersion } from "@kip/testing";

const commit = isWholeRun ? olderVersion(process.env["KIP_UPGRADE_FROM"]) : undefined;
const reason = isWholeRun
  ? "this folder has no history of commits"
  : "builds the cell image of an older version: npm run test:e2e:all";
const skip = commit === undefined && reason;

/** Options that the older version also has. */
const flags = upFlags.filter(
  (flag) => !/^--(audit-log|settings|host-port)=|^--act-as-node$/.test(flag),
);

interface PodFacts {
  readonly metadata: { readonly uid: string };
  readonly status: {
    readonly phase: string;
    readonly podIP: string;
    readonly startTime: string;
    readonly containerStatuses: readonly {
      readonly containerID: string;
      readonly restartCount: number;
      readonly ready: boolean;
      readonly state: object;
    }[];
  };
}

describe("an upgrade", { timeout: 1_200_000, skip }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), "kip-older-"));
  let kube: Cluster;
  let older: PodFacts;
  let machines: readonly number[];

  before(
    async () => {
      removeCluster();
      unpackVersion(commit ?? "", folder);
      const kip = path.join(folder, "apps/kip/bin/kip");
      const up = await run(kip, ["up", ...flags], { timeoutMs: 900_000 });
      assert.equal(up.status, 0, up.stdout + up.stderr);
      assert.ok(commandLine(providerProcess()).includes(folder), "the older version runs the node");
      // It is running, and is not changed.
      kube = await cluster("upgrade", { up: flags, status: clusterFlags });
      assert.ok(commandLine(providerProcess()).includes(folder), "and goes on");
    },
    { timeout: 1_000_000 },
  );

  after(() => {
    removeCluster();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  const facts = async (pod: string): Promise<PodFacts> =>
    JSON.parse(await kube.ok("get", "pod", pod, "-o", "json")) as PodFacts; // kubectl's format
  const ready = async (pod: string): Promise<string> =>
    await kube.ok("wait", "--for=condition=Ready", `pod/${pod}`, "--timeout=300s");

  it("begins with a pod on a cell of the older version", async () => {
    const script = "i=0; while :; do i=$((i+1)); echo line $i; sleep 1; done";
    await kube.apply(shellPod("web", script));
    await ready("web");
    older = await facts("web");
    machines = machineProcesses();
    assert.equal(machines.length, 1);
  });

  it("leaves the pod running when the newer version takes over", async () => {
    // As if the computer's service were killed. The newer version ends everything that the older one left, except the machines.
    process.kill(parentOf(providerProcess()), "SIGKILL");
    kube = await cluster("upgrade", { up: flags, status: clusterFlags });
    assert.ok(!commandLine(providerProcess()).includes(folder), "the newer version runs the node");
    await ready("web");
    await eventually("the agent to be connected", async () => {
      const { status } = await kube.kubectl("exec", "web", "--", "true");
      return status === 0;
    });
    const newer = await facts("web");
    assert.deepEqual(newer.metadata.uid, older.metadata.uid);
    assert.deepEqual(newer.status.containerStatuses, older.status.containerStatuses);
    assert.equal(newer.status.podIP, older.status.podIP);
    assert.equal(newer.status.startTime, older.status.startTime);
    assert.deepEqual(machineProcesses(), machines);
    const lines = (await kube.ok("logs", "web")).trim().split("\n");
    assert.deepEqual(
      lines,
      lines.map((_, at) => `line ${at + 1}`),
      "no line is lost or written again",
    );
  });

  it("runs new pods, and removes those of the older version", async () => {
    await kube.apply(shellPod("new", "sleep 600"));
    await ready("new");
    assert.equal(machineProcesses().length, 2);
    await kube.ok("delete", "pod", "web", "new", "--timeout=120s");
    await eventually("the machines to be gone", () => machineProcesses().length === 0);
    assert.equal(await kube.ok("get", "cells", "-o", "name"), "");
  });
});

function commandLine(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
}

function parentOf(pid: number): number {
  const found = /^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(found?.[1]);
}
