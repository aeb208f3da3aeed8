import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { before, describe, it } from "node:test";
import { eventually as poll } from "@kip/testing";
import {
  cluster,
  eventually,
  killProvider,
  machineProcesses,
  shellPod,
  stateDir,
  type Cluster,
} from "./cluster.ts";

const script = "echo started; trap 'sleep 3; exit 0' TERM; while :; do sleep 1; done";

describe("kip killed with SIGKILL", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("recovery");
  });

  it("(a) while a pod runs: the pod does not notice", async () => {
    await kube.apply(shellPod("running", script));
    await kube.ok("wait", "--for=condition=Ready", "pod/running", "--timeout=240s");
    const state =
      "jsonpath={.status.containerStatuses[0].state.running.startedAt} {.status.containerStatuses[0].restartCount}";
    const earlier = await kube.ok("get", "pod", "running", "-o", state);
    const machines = machineProcesses();
    await killProvider();
    await eventually(
      "exec to work again",
      async () => (await kube.kubectl("exec", "running", "--", "true")).status === 0,
    );
    assert.equal(await kube.ok("get", "pod", "running", "-o", state), earlier);
    assert.deepEqual(machineProcesses(), machines);
    assert.equal(await kube.ok("logs", "running"), "started\n");
    await cleanUp("running");
  });

  it("(b) between Cell and launch: one machine, one start", async () => {
    const seen = cellPhase("early", /./);
    await kube.apply(shellPod("early", script));
    await seen;
    await killProvider();
    await isStartedOnce("early");
  });

  it("(c) between launch and dispatch: one machine, one start", async () => {
    await kube.apply(shellPod("between", script));
    // Phases are written up to a second late, when a clone may already have its pod. So this waits for the machine itself.
    await poll(() => machineProcesses().length > 0, {
      what: "the machine to start",
      limitMs: 120_000,
      intervalMs: 10,
    });
    await killProvider();
    await isStartedOnce("between");
  });

  it("(d) while deleting: pod, Cell and machine go", async () => {
    await kube.apply(shellPod("leaving", script, { terminationGracePeriodSeconds: 20 }));
    await kube.ok("wait", "--for=condition=Ready", "pod/leaving", "--timeout=240s");
    const seen = cellPhase("leaving", /Draining/);
    await kube.ok("delete", "pod", "leaving", "--wait=false");
    await seen;
    await killProvider();
    await kube.ok("wait", "--for=delete", "pod/leaving", "--timeout=120s");
    await nothingLeft();
  });

  it("with the whole local cluster: the next kip up takes the machine over", async () => {
    await kube.apply(shellPod("survivor", script));
    await kube.ok("wait", "--for=condition=Ready", "pod/survivor", "--timeout=240s");
    const machines = machineProcesses();
    const record = JSON.parse(readFileSync(`${stateDir}/state/daemon.json`, "utf8")) as {
      pid: number;
    };
    process.kill(record.pid, "SIGKILL");
    await eventually("the daemon to be gone", () => !existsSync(`/proc/${record.pid}/exe`));
    kube = await cluster("recovery");
    await eventually(
      "exec to work again",
      async () => (await kube.kubectl("exec", "survivor", "--", "true")).status === 0,
    );
    assert.deepEqual(machineProcesses(), machines);
    assert.equal(await kube.ok("logs", "survivor"), "started\n");
    await cleanUp("survivor");
  });

  async function isStartedOnce(name: string): Promise<void> {
    await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
    assert.equal(machineProcesses().length, 1);
    assert.equal(await kube.ok("logs", name), "started\n");
    assert.equal(
      await kube.ok(
        "get",
        "pod",
        name,
        "-o",
        "jsonpath={.status.containerStatuses[0].restartCount}",
      ),
      "0",
    );
    assert.equal((await kube.ok("get", "cells", "-o", "name")).trim().split("\n").length, 1);
    await cleanUp(name);
  }

  async function cleanUp(name: string): Promise<void> {
    await kube.ok("delete", "pod", name, "--timeout=120s");
    await nothingLeft();
  }

  async function nothingLeft(): Promise<void> {
    await eventually("the machine to go", () => machineProcesses().length === 0);
    assert.equal(await kube.ok("get", "cells", "-o", "name"), "");
  }

  /** Resolves when the pod's Cell exists and its phase matches. A missing status counts as "Pending". */
  async function cellPhase(pod: string, phase: RegExp): Promise<void> {
    const columns = "custom-columns=POD:.spec.podRef.name,PHASE:.status.phase";
    const child = spawn(
      kube.kubectlPath,
      ["--kubeconfig", kube.kubeconfig, "get", "cells", "--watch", "--no-headers", "-o", columns],
      { timeout: 120_000 },
    );
    try {
      for await (const line of createInterface({ input: child.stdout })) {
        const [name = "", shown = ""] = line.trim().split(/\s+/);
        if (name === pod && phase.test(shown)) return;
      }
    } finally {
      child.kill();
    }
    assert.fail(`no Cell of pod "${pod}" had a phase like ${phase.source} within 120 s`);
  }
});
