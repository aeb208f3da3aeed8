import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  cluster,
  clusterFlags,
  eventually,
  kipCommand,
  machineProcesses,
  shellPod,
  type Cluster,
} from "./cluster.ts";

const script = "trap 'exit 0' TERM; while :; do sleep 1; done";

/** The fields of a pod that these tests read. */
interface ListedPod {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
  };
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly { readonly state: { readonly running?: object } }[];
  };
}

function isReady({ status }: ListedPod): boolean {
  return (
    status.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false
  );
}

function isRunning({ status }: ListedPod): boolean {
  return status.containerStatuses?.every(({ state }) => state.running) ?? false;
}

describe("kip local", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("faults");
  });
  after(async () => {
    await local("clear");
    await kube.ok("delete", "pods", "--all", "--timeout=120s");
  });

  it("no-capacity: a pod waits and says why, and starts once it is cleared", async () => {
    const told = await local("no-capacity");
    assert.match(told, /no new cell of any type starts/);
    assert.match(await local("status"), /no capacity/);
    await kube.apply(shellPod("waits", script));
    await eventually("the pod to say why it waits", async () =>
      (await events("waits", "CloudNoCapacity")).includes("no capacity of zone local"),
    );
    const condition = `jsonpath={.status.conditions[?(@.type=="kip.elotl.co/CellReady")].reason}`;
    // The condition of a starting pod is written up to a second after the event.
    await eventually("the condition", async () =>
      (await kube.ok("get", "pod", "waits", "-o", condition)).includes("CloudNoCapacity"),
    );
    assert.equal(machineProcesses().length, 0);
    await local("clear");
    await kube.ok("wait", "--for=condition=Ready", "pod/waits", "--timeout=240s");
    assert.match(await local("status"), /No faults are active/);
  });

  it("no-capacity of a type: a pod gets the next best machine at once", async () => {
    const type = async (name: string): Promise<string> => {
      const path = `jsonpath={.items[?(@.spec.podRef.name=='${name}')].spec.instanceType}`;
      return (await kube.ok("get", "cells", "-o", path)).trim();
    };
    const small = { resources: { limits: { memory: "100Mi" } } };
    await kube.apply(shellPod("cheapest", script, {}, small));
    await kube.ok("wait", "--for=condition=Ready", "pod/cheapest", "--timeout=240s");
    const cheapest = await type("cheapest");
    assert.match(await local("no-capacity", "--type", cheapest), /no capacity/);
    await kube.apply(shellPod("next", script, {}, small));
    await kube.ok("wait", "--for=condition=Ready", "pod/next", "--timeout=240s");
    assert.notEqual(await type("next"), cheapest);
    assert.match(await events("next", "CloudNoCapacity"), new RegExp(cheapest));
    await local("clear");
    await kube.ok("delete", "pod", "cheapest", "next", "--timeout=120s");
  });

  it("interrupt: a pod is warned in time, and gets another cell, as after kill", async () => {
    const cell = async (): Promise<string> =>
      (await kube.ok("get", "cells", "-o", "jsonpath={.items[*].metadata.name}")).trim();
    const first = await cell();
    assert.match(await local("interrupt", "faults/waits", "--notice=8s"), /ends in 8 s/);
    await eventually("the event", async () =>
      (await events("waits", "CellInterrupted")).includes("takes instance"),
    );
    const disruption = async (): Promise<string> =>
      await kube.ok(
        "get",
        "pod",
        "waits",
        "-o",
        'jsonpath={.status.conditions[?(@.type=="DisruptionTarget")].status}',
      );
    await eventually("the condition", async () => (await disruption()) === "True");
    await eventually("another cell", async () => ![first, ""].includes(await cell()));
    await kube.ok("wait", "--for=condition=Ready", "pod/waits", "--timeout=240s");
    assert.equal(await disruption(), "False");
    const second = await cell();
    assert.match(await local("kill", "waits"), /is gone/);
    await eventually("a third cell", async () => ![first, second, ""].includes(await cell()));
    await kube.ok("wait", "--for=condition=Ready", "pod/waits", "--timeout=240s");
    assert.equal(machineProcesses().length, 1);
  });

  it("interrupt: a Deployment's pod runs until its replacement is ready", async () => {
    const main = {
      name: "main",
      image: "kip.local/demo:latest",
      // Stops slowly, so that the test can see it stop after its replacement was ready.
      command: ["sh", "-c", "trap 'sleep 8; exit 0' TERM; while :; do sleep 1; done"],
    };
    const labels = { app: "served" };
    const template = { metadata: { labels }, spec: { containers: [main] } };
    await kube.apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "served" },
      spec: { replicas: 1, selector: { matchLabels: labels }, template },
    });
    await kube.ok("rollout", "status", "deployment/served", "--timeout=240s");
    const list = async (): Promise<readonly ListedPod[]> =>
      JSON.parse(await kube.ok("get", "pods", "-l", "app=served", "-o", "json")).items;
    const [old] = await list();
    assert.ok(old);
    await local("interrupt", `faults/${old.metadata.name}`, "--notice=240s");
    await eventually(
      "both to be ready, the old one while it is being deleted",
      async () => {
        const pods = await list();
        const leaving = pods.find(({ metadata }) => metadata.uid === old.metadata.uid);
        assert.ok(leaving, "the pod is there until its replacement is ready");
        assert.ok(isRunning(leaving), "its container runs until its replacement is ready");
        const next = pods.find(({ metadata }) => metadata.uid !== old.metadata.uid);
        if (!next || !isReady(next)) return false;
        assert.ok(isReady(leaving) && leaving.metadata.deletionTimestamp !== undefined);
        return true;
      },
      240_000,
    );
    await kube.ok("wait", "--for=delete", `pod/${old.metadata.name}`, "--timeout=60s");
    assert.match(await events(old.metadata.name, "StopDelayed"), /ReplicaSet/);
    await kube.ok("delete", "deployment", "served", "--timeout=60s");
    await kube.ok("wait", "--for=delete", "pod", "-l", "app=served", "--timeout=120s");
  });

  it("kill: a pod of restartPolicy OnFailure goes on with what it has behind it", async () => {
    const image = "kip.local/demo:latest";
    const quick = { image, command: ["sh", "-c", "exit 0"] };
    const containers = [
      { name: "main", image, command: ["sh", "-c", script] },
      { name: "done", ...quick },
    ];
    const initContainers = [{ name: "init", ...quick }];
    const spec = { restartPolicy: "OnFailure", initContainers, containers };
    await kube.apply(shellPod("resumes", script, spec));
    const status = async (path: string): Promise<string> =>
      await kube.ok("get", "pod", "resumes", "-o", `jsonpath={.status.${path}}`);
    const container = async (name: string, path: string): Promise<string> =>
      await status(`containerStatuses[?(@.name=="${name}")].${path}`);
    const has = async (name: string, path: string, wanted: string): Promise<void> =>
      await eventually(`${name}: ${path}`, async () => (await container(name, path)) === wanted);
    await has("done", "state.terminated.exitCode", "0");
    await has("main", "ready", "true");
    const before = await container("done", "state.terminated");
    assert.match(await local("kill", "resumes"), /is gone/);
    await has("main", "restartCount", "1");
    // Read it at once, because the next cell may exist within a second.
    const ready = '.containerStatuses[?(@.name=="main")].ready';
    const between = await status(`phase} {.status${ready}} {.status.podIP`);
    assert.match(between, /^Running (false $|true \S)/);
    await has("main", "ready", "true");
    const lost = "lastState.terminated.reason";
    assert.equal(await container("main", lost), "ContainerStatusUnknown");
    assert.equal(await container("done", "state.terminated"), before);
    assert.equal(await container("done", "restartCount"), "0");
    assert.equal(await status("initContainerStatuses[0].state.terminated.exitCode"), "0");
    assert.doesNotMatch(await events("resumes", "ProviderStatusInvalid"), /\w/);
  });

  it("ends the machine of a pod whose phase somebody else has set, and keeps its log", async () => {
    const machines = machineProcesses().length;
    const failed = JSON.stringify({ status: { phase: "Failed" } });
    const patch = ["patch", "pod", "resumes", "--subresource=status", "--type=merge", "-p", failed];
    await kube.ok(...patch);
    await eventually("its machine to go", () => machineProcesses().length === machines - 1);
    assert.equal(await kube.ok("logs", "resumes", "-c", "main"), "");
  });

  it("says what it does not understand", async () => {
    for (const [args, words] of [
      [["no-capacity", "--type=local.smal"], /Did you mean local\.small/],
      [["kill", "waitz"], /Did you mean/],
      [["fail", "lanch"], /Did you mean launch/],
      [["interupt", "waits"], /Did you mean kip local interrupt/],
    ] as const) {
      const { status, stderr } = await kipCommand("local", ...args, ...clusterFlags);
      assert.equal(status, 1, args.join(" "));
      assert.match(stderr, words);
    }
  });

  async function local(...args: readonly string[]): Promise<string> {
    const { status, stdout, stderr } = await kipCommand("local", ...args, ...clusterFlags);
    assert.equal(status, 0, stderr);
    return stdout;
  }

  async function events(pod: string, reason: string): Promise<string> {
    const selector = `involvedObject.name=${pod},reason=${reason}`;
    return await kube.ok("get", "events", `--field-selector=${selector}`, "-o", "wide");
  }
});
