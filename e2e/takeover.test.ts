// Two kips of one node on the machines of the local cloud. They share its state folder, as two replicas share an account of a
// cloud. The node is beside that of kip up, whose kip has no replicas.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { parse, stringify } from "yaml";
import {
  cluster,
  eventually,
  machineProcesses,
  readProviderConfig,
  shellPod,
  stateDir,
  type Cluster,
} from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const script = "echo started; trap 'exit 0' TERM; while :; do sleep 1; done";
const nodeName = `${own.name}-replicas`;
const folder = path.join(stateDir, "replicas");
const kip = path.join(import.meta.dirname, "../apps/kip/bin/kip");
/** Duration of the Lease, and what the requests that take it may need, milliseconds. */
const takeoverMs = 15_000 + 1000;

interface PodFacts {
  readonly metadata: { readonly uid: string };
  readonly status: {
    readonly podIP: string;
    readonly containerStatuses: readonly object[];
  };
}

describe("two kips of one node", { timeout: 900_000 }, () => {
  let kube: Cluster;
  let first: Replica;
  let second: Replica;
  let kept: PodFacts;
  /** The machine of the pod that is there all the time. */
  let machines: readonly number[];
  const replicas: Replica[] = [];

  before(async () => {
    kube = await cluster("takeover");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const config = parse(readProviderConfig()) as { cloud: { local: object } };
    // The kip of kip up has the addresses of the computer at which Services answer.
    const local = { ...config.cloud.local, hostServices: false, nodePortAddresses: [] };
    const text = stringify({ ...config, cloud: { local } });
    writeFileSync(`${folder}/provider.yaml`, text, { mode: 0o600 });
  });

  after(async () => {
    await kube?.kubectl("delete", "pod", "--all", "--timeout=120s");
    for (const replica of replicas) await replica.end("SIGKILL");
    await kube?.kubectl("delete", "node", nodeName, "--ignore-not-found");
    await kube?.kubectl("delete", "lease", `${nodeName}.kip`, "-n", "kube-node-lease");
  });

  function start(): Replica {
    const replica = new Replica(replicas.length, kube.kubeconfig);
    replicas.push(replica);
    return replica;
  }

  it("begin with one that runs the node, and one that waits", async () => {
    first = start();
    await eventually("the first to run the node", () => first.turns === 1);
    second = start();
    await eventually("the second to wait", () => second.hasLogged("Waits for the Lease"));
    await run("kept");
    kept = await facts("kept");
    machines = machineProcesses();
    assert.equal(machines.length, 1);
  });

  it("killed while it starts a pod: the other one takes over within the Lease's duration", async (context) => {
    await create("between");
    await eventually("its machine", () => machineProcesses().length === 2);
    const killedAt = Date.now();
    await first.end("SIGKILL");
    await create("meanwhile");
    const lease = await takenOver(killedAt);
    const answersMs = await answers("kept", killedAt);
    context.diagnostic(JSON.stringify({ figure: "takeover after SIGKILL", lease, answersMs }));
    assert.equal(second.turns, 1);
    assert.ok(lease <= takeoverMs, `took over after ${lease} ms`);
    await isAsBefore();
    await startedOnce("between");
    await startedOnce("meanwhile");
    assert.equal(machineProcesses().length, 3);
  });

  it("stopped for longer than the Lease lasts: the other one takes over, and the first changes nothing afterwards", async (context) => {
    first = start();
    await eventually("the first to wait", () => first.hasLogged("Waits for the Lease"));
    await create("during");
    second.signal("SIGSTOP");
    const stoppedAt = Date.now();
    await kube.ok("delete", "pod", "between", "--wait=false");
    const lease = await takenOver(stoppedAt);
    const answersMs = await answers("kept", stoppedAt);
    context.diagnostic(JSON.stringify({ figure: "takeover after SIGSTOP", lease, answersMs }));
    assert.ok(lease <= takeoverMs, `took over after ${lease} ms`);
    second.signal("SIGCONT");
    await eventually("the second to stop", () => second.hasLogged("Lost the Lease of the node"));
    await kube.ok("wait", "--for=delete", "pod/between", "--timeout=120s");
    await startedOnce("during");
    await isAsBefore();
    assert.equal(second.turns, 1);
  });

  it("stopped by SIGTERM: the other one takes over at once", async (context) => {
    await eventually("the second to wait again", () => second.waits === 2);
    const stoppedAt = Date.now();
    await first.end("SIGTERM");
    const endedMs = Date.now() - stoppedAt;
    const lease = await takenOver(stoppedAt);
    const answersMs = await answers("kept", stoppedAt);
    const figures = { figure: "takeover after SIGTERM", lease, endedMs, answersMs };
    context.diagnostic(JSON.stringify(figures));
    assert.ok(lease <= 5000, `took over after ${lease} ms`);
    assert.equal(second.turns, 2);
    await isAsBefore();
  });

  it("leave nothing", async () => {
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
    await eventually("the machines to go", () => machineProcesses().length === 0);
    assert.equal(await kube.ok("get", "cells", "-o", "name"), "");
  });

  async function create(name: string): Promise<void> {
    await kube.apply(shellPod(name, script, { nodeName }));
  }

  async function run(name: string): Promise<void> {
    await create(name);
    await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
  }

  async function facts(name: string): Promise<PodFacts> {
    return JSON.parse(await kube.ok("get", "pod", name, "-o", "json")) as PodFacts;
  }

  /** @returns time from then until a replica took the Lease, milliseconds */
  async function takenOver(since: number): Promise<number> {
    const times = "jsonpath={.spec.holderIdentity} {.spec.acquireTime}";
    let acquiredAt = 0;
    await eventually("a replica to take the Lease", async () => {
      const lease = ["get", "lease", `${nodeName}.kip`, "-n", "kube-node-lease", "-o", times];
      const [holder = "", time = ""] = (await kube.ok(...lease)).split(" ");
      acquiredAt = Date.parse(time);
      return holder !== "" && acquiredAt > since;
    });
    return acquiredAt - since;
  }

  /** @returns time from then until kubectl exec works, milliseconds */
  async function answers(name: string, since: number): Promise<number> {
    await eventually(
      "exec to work",
      async () => (await kube.kubectl("exec", name, "--", "true")).status === 0,
    );
    return Date.now() - since;
  }

  /** Neither the pod nor its machine has noticed. */
  async function isAsBefore(): Promise<void> {
    const { metadata, status } = await facts("kept");
    assert.equal(metadata.uid, kept.metadata.uid);
    assert.equal(status.podIP, kept.status.podIP);
    assert.deepEqual(status.containerStatuses, kept.status.containerStatuses);
    assert.ok(machines.every((pid) => machineProcesses().includes(pid)));
    assert.equal(await kube.ok("logs", "kept"), "started\n");
  }

  async function startedOnce(name: string): Promise<void> {
    await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
    const restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    assert.equal(await kube.ok("get", "pod", name, "-o", restarts), "0");
    assert.equal(await kube.ok("logs", name), "started\n");
    const cells = "custom-columns=POD:.spec.podRef.name";
    const names = (await kube.ok("get", "cells", "--no-headers", "-o", cells)).trim().split("\n");
    assert.equal(names.filter((each) => each === name).length, 1);
  }
});

/** A process of kip. Its logs of pods are its own, as those of a replica are. */
class Replica {
  readonly #child: ChildProcess;
  readonly #logFile: string;

  constructor(number: number, kubeconfig: string) {
    this.#logFile = path.join(folder, `kip-${number}.log`);
    const state = (name: string): string => path.join(stateDir, "state", name);
    const logDir = path.join(folder, `logs-${number}`);
    mkdirSync(logDir, { mode: 0o700 });
    const args = [
      `--provider-config=${folder}/provider.yaml`,
      `--kubeconfig=${kubeconfig}`,
      `--nodename=${nodeName}`,
      `--node-ip=${own.hostAddress}`,
      `--kubelet-port=${10_260 + number}`,
      // Of the same address.
      `--tls-cert-file=${state("kubelet.crt")}`,
      `--tls-private-key-file=${state("kubelet.key")}`,
      `--client-ca-file=${state("client-ca.crt")}`,
      `--log-dir=${logDir}`,
    ];
    const log = openSync(this.#logFile, "a");
    this.#child = spawn(kip, args, { stdio: ["ignore", log, log] });
    closeSync(log);
  }

  /** How often it has begun to run the node. */
  get turns(): number {
    return this.#count('"Runs the node"');
  }

  /** How often it has begun to wait for its turn. */
  get waits(): number {
    return this.#count('"Waits for the Lease of the node"');
  }

  hasLogged(text: string): boolean {
    return readFileSync(this.#logFile, "utf8").includes(text);
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(name);
  }

  async end(name: "SIGTERM" | "SIGKILL"): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill(name);
    await ended;
  }

  #count(text: string): number {
    return readFileSync(this.#logFile, "utf8").split(text).length - 1;
  }
}
