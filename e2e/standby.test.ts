import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import {
  cluster,
  eventually,
  killProvider,
  machineProcesses,
  readProviderConfig,
  shellPod,
  writeProviderConfig,
  type Cluster,
} from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const script = "echo started; trap 'exit 0' TERM; while :; do sleep 1; done";

interface CellSeen {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: {
    readonly instanceType: string;
    readonly rootDiskBytes: number;
    readonly standby?: boolean;
    readonly podRef?: { readonly name: string };
  };
  readonly status?: { readonly phase?: string; readonly ip?: string; readonly podIP?: string };
}

describe("standby cells", () => {
  let kube: Cluster;
  let original: string;
  let instanceType = "";
  let bareMs = 0;
  before(async () => {
    kube = await cluster("standby");
    original = readProviderConfig();
  });
  after(async () => {
    writeProviderConfig(original);
    await kube.kubectl("delete", "pod", "--all", "--timeout=120s");
    await eventually("the machines to go", () => machineProcesses().length === 0);
  });

  it("are what a pod would get: the type of one that has a cell of its own", async () => {
    // Twice, so that the template has the image.
    for (const name of ["bare-0", "bare-1", "bare-2"]) {
      bareMs = await msUntilReady(name);
      instanceType = (await cellOf(name)).spec.instanceType;
      await kube.ok("delete", "pod", name, "--timeout=120s");
    }
  });

  it("are taken by a pod at once, and replaced", async (context) => {
    setPool(1);
    const [standby] = await untilReady(1);
    const machines = machineProcesses();
    assert.equal(machines.length, 1);
    const standbyMs = await msUntilReady("quick");
    const cell = await cellOf("quick");
    assert.equal(cell.metadata.uid, standby?.metadata.uid);
    assert.ok(
      machines.every((pid) => machineProcesses().includes(pid)),
      "its machine is the one that stood by",
    );
    const figures = { figure: "create to Ready", instanceType, bareMs, standbyMs };
    context.diagnostic(JSON.stringify(figures));
    const [next] = await untilReady(1);
    assert.notEqual(next?.metadata.uid, cell.metadata.uid);
    assert.equal(machineProcesses().length, 2);
  });

  it("give the pod its own address, name and logs", async () => {
    const cell = await cellOf("quick");
    const podIp = await kube.ok("get", "pod", "quick", "-o", "jsonpath={.status.podIP}");
    assert.equal(podIp, cell.status?.podIP);
    assert.match(await kube.ok("exec", "quick", "--", "ip", "addr"), new RegExp(`${podIp}/`));
    assert.equal((await kube.ok("exec", "quick", "--", "hostname")).trim(), "quick");
    assert.equal(await kube.ok("logs", "quick"), "started\n");
  });

  it("stay, with their pods, when kip is killed", async () => {
    const cells = (await allCells()).map(({ metadata }) => metadata.uid).sort();
    const machines = machineProcesses();
    await killProvider();
    await eventually("kip to be connected to it", async () => (await metric("cells")) === 1);
    const [standby] = await untilReady(1);
    await msUntilReady("second");
    assert.equal(await metric("claims_total"), 1, "since this start of kip");
    assert.equal((await cellOf("second")).metadata.uid, standby?.metadata.uid);
    await untilReady(1);
    const now = await allCells();
    assert.ok(cells.every((uid) => now.some(({ metadata }) => metadata.uid === uid)));
    assert.ok(machines.every((pid) => machineProcesses().includes(pid)));
    assert.equal(await kube.ok("logs", "quick"), "started\n");
  });

  it("are taken by a pod that asks for a larger disk, and have it", async () => {
    const [standby] = await untilReady(1);
    const pod = shellPod("large", script) as { readonly metadata: object };
    const annotations = { "pod.elotl.co/volume-size": "9Gi" };
    await kube.apply({ ...pod, metadata: { ...pod.metadata, annotations } });
    await kube.ok("wait", "--for=condition=Ready", "pod/large", "--timeout=240s");
    const cell = await cellOf("large");
    assert.equal(cell.metadata.uid, standby?.metadata.uid);
    assert.ok((standby?.spec.rootDiskBytes ?? 0) < 9 * 2 ** 30, "it was smaller");
    const df = await kube.ok("exec", "large", "--", "df", "-k", "/");
    const kib = Number(/^\S+\s+(\d+)\s/m.exec(df.split("\n").slice(1).join("\n"))?.[1]);
    assert.ok(kib > 8 * 2 ** 20, df);
    await kube.ok("delete", "pod", "large", "--timeout=120s");
    await untilReady(1);
  });

  it("are replaced when their machine ends", async () => {
    const [standby] = await untilReady(1);
    const line = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, "utf8");
    const instance = await kube.ok(
      "get",
      "cell",
      standby?.metadata.name ?? "",
      "-o",
      "jsonpath={.status.instanceID}",
    );
    const pid = machineProcesses().find((each) => line(each).includes(instance));
    assert.ok(pid !== undefined, instance);
    process.kill(pid, "SIGKILL");
    await eventually("another standby cell", async () => {
      const ready = (await allCells()).filter(isReady);
      return ready.length === 1 && ready[0]?.metadata.uid !== standby?.metadata.uid;
    });
  });

  it("end when no pool wants them, and the pods that have taken some go on", async () => {
    setPool(0);
    await eventually("the standby cells to go", async () =>
      (await allCells()).every(({ spec }) => spec.podRef !== undefined),
    );
    await eventually("their machines to go", () => machineProcesses().length === 2);
    await kube.ok("delete", "pod", "quick", "second", "--timeout=120s");
    await eventually("all machines to go", () => machineProcesses().length === 0);
    assert.equal(await kube.ok("get", "cells", "-o", "name"), "");
  });

  /** The number of standby cells that pods took, or that are ready. */
  async function metric(name: "cells" | "claims_total"): Promise<number> {
    const path = `/api/v1/nodes/${own.name}/proxy/metrics`;
    const { stdout } = await kube.kubectl("get", "--raw", path);
    const label = name === "cells" ? 'state="ready"' : 'result="hit"';
    return Number(
      new RegExp(`^kip_standby_${name}\\{.*${label}\\} (\\d+)$`, "m").exec(stdout)?.[1] ?? 0,
    );
  }

  /** Changes the configuration like an operator does, by replacing the file. */
  function setPool(count: number): void {
    const pool = JSON.stringify([{ instanceType, count }]);
    writeProviderConfig(original.replace(/^cells:\n/m, `cells:\n  standbyCells: ${pool}\n`));
  }

  async function allCells(): Promise<readonly CellSeen[]> {
    const { items } = JSON.parse(await kube.ok("get", "cells", "-o", "json")) as {
      items: readonly CellSeen[];
    };
    return items;
  }

  async function untilReady(count: number): Promise<readonly CellSeen[]> {
    await eventually(`${count} standby cells`, async () => {
      const waiting = (await allCells()).filter(({ spec }) => spec.podRef === undefined);
      return waiting.length === count && waiting.every(isReady);
    });
    return (await allCells()).filter(isReady);
  }

  async function cellOf(pod: string): Promise<CellSeen> {
    const found = (await allCells()).find(({ spec }) => spec.podRef?.name === pod);
    assert.ok(found, pod);
    return found;
  }

  /** Time from the creation of a pod to its condition Ready, as seen by a watch that was started before. */
  async function msUntilReady(name: string): Promise<number> {
    const began = performance.now();
    await kube.apply(shellPod(name, script));
    await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
    return Math.round(performance.now() - began);
  }
});

function isReady({ spec, status }: CellSeen): boolean {
  return spec.podRef === undefined && status?.phase === "Ready";
}
