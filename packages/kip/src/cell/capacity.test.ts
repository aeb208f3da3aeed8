import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import * as fc from "fast-check";
import { silentLogger, untilAborted } from "@kip/base";
import { CloudError, type CloudDriver, type LaunchRequest } from "@kip/cloud";
import {
  createSimulatedCloud,
  type SimulatedCloud,
  type SimulatedCloudOptions,
} from "@kip/cloud/simulated";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { CellChooser } from "../selection/cell-chooser.ts";
import { cellName, type Cell, type CellSpec } from "../state/cell.ts";
import { CellWorker } from "./cell-worker.ts";
import { createCellSteps } from "./steps/cell-steps.ts";
import type { CellTools } from "./steps/step-context.ts";

/** Lets pending promises and immediates run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 60; turn++) await setImmediate();
}

/** When to kill kip: at this call of the API or the cloud, before or after its effect. */
interface Death {
  readonly atCall: number;
  readonly isBefore: boolean;
}

/** The API and the simulated cloud, which survive kills of kip. */
class World {
  readonly clock = new ManualClock();
  readonly cloud: SimulatedCloud;
  readonly cells = new Map<string, Cell>();
  /** Maximum number of instances that ran at the same time. */
  most = 0;
  /** Launch types whose quota is full. */
  refuses: RegExp | undefined;
  /** UID of a pod whose launches get no answer. */
  stuck: string | undefined;
  /** Resolves when Cells can be removed. */
  removable: Promise<void> | undefined;
  /** How often a Cell was created. */
  created = 0;
  #uids = 0;

  constructor(options: SimulatedCloudOptions = {}) {
    this.cloud = createSimulatedCloud({ ...options, clock: this.clock });
  }

  async count(cloud: CloudDriver): Promise<void> {
    this.most = Math.max(this.most, (await cloud.list()).length);
  }

  create(spec: CellSpec): Cell {
    this.created += 1;
    const name = cellName(spec.podRef.uid, spec.attempt);
    const metadata = { name, uid: `${name}-${++this.#uids}` };
    const written = { apiVersion: "kip.elotl.co/v1beta1", kind: "Cell", metadata, spec } as const;
    const cell = this.cells.get(name) ?? written;
    this.cells.set(name, cell);
    return cell;
  }
}

/** One process of kip, with real workers, steps and chooser. Its cells have no agents. */
class Life {
  readonly #world: World;
  readonly #death: Death | undefined;
  readonly #steps: ReturnType<typeof createCellSteps>;
  readonly events: string[] = [];
  readonly #workers = new Map<string, CellWorker>();
  #calls = 0;
  #isDead = false;

  constructor(world: World, death?: Death) {
    this.#world = world;
    this.#death = death;
    const { cells, clock } = world;
    const driver = this.#mortal(world.cloud.open({ owner: "kip" }));
    const tools = {
      driver,
      store: {
        create: (spec: CellSpec) => this.#call(async () => world.create(spec)),
        writeStatus: async () => {},
        markDeleted: async () => {},
        remove: ({ metadata }: Cell) =>
          this.#call(async () => {
            await world.removable;
            cells.delete(metadata.name);
          }),
      },
      chooser: new CellChooser(driver, () => ({
        nodeName: "kip",
        controllerID: "kip",
        defaultInstanceType: undefined,
        defaultVolumeBytes: 2 ** 30,
        imageSpec: { name: "cell" },
        privateIPOnly: true,
      })),
      identities: { issueForCell: async () => ({ identity: {}, expires: new Date(0) }) },
      clusterID: "kip",
      knownImages: { imagesOf: () => undefined },
      onEvent: (podUid: string, reason: string) => this.events.push(`${podUid} ${reason}`),
      onProblem: (podUid: string, reason: string) => this.events.push(`${podUid} ${reason}`),
      settings: () => ({ registries: [] }),
      clock,
      tracer: noTracer,
      logger: silentLogger,
    };
    const real = createCellSteps(tools as unknown as CellTools); // the methods that are called
    const connect = async (): Promise<never> => await new Promise(() => {});
    this.#steps = { ...real, executors: { ...real.executors, connect } };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Runs a pod that requests this much CPU. */
  run(uid: string, { cpu = "100m", age = 0, annotations = {} } = {}): CellWorker {
    const { clock, cells } = this.#world;
    const worker = new CellWorker({
      podRef: { namespace: "default", name: uid, uid },
      nodeIp: "192.0.2.1",
      steps: this.#steps,
      limits: { bootMs: 1e9, unreachableLimitMs: 1e9, drainLeewayMs: 1000 },
      clock,
      logger: silentLogger,
      onChange: () => {},
      onReport: () => {},
      onEvent: (_type, reason) => this.events.push(`${uid} waits: ${reason}`),
    });
    this.#workers.set(uid, worker);
    worker.cellSeen([...cells.values()].find(({ spec }) => spec.podRef.uid === uid));
    const creationTimestamp = new Date(Date.UTC(2026, 0, 1) - age * 1000).toISOString();
    const containers = [{ name: "main", resources: { requests: { cpu } } }];
    const pod = podWith({
      metadata: { uid, annotations, creationTimestamp },
      spec: { containers },
    });
    const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
    worker.apply({ pod, ...maps, pullSecrets: [] });
    return worker;
  }

  async kill(): Promise<void> {
    this.#isDead = true;
    for (const worker of this.#workers.values()) void worker.stop();
    await settle();
  }

  /** Types of each pod's instances, and what each pod is waiting for. */
  async machines(): Promise<readonly string[]> {
    const instances = await this.#world.cloud.open({ owner: "kip" }).list();
    return instances
      .map(({ tags, instanceType }) => `${tags["kip-pod-uid"]} ${instanceType}`)
      .sort();
  }

  why(uid: string): string | undefined {
    return this.#workers.get(uid)?.state.wait.reason?.message;
  }

  #mortal(driver: CloudDriver): CloudDriver {
    return new Proxy(driver, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...args: readonly unknown[]) =>
          this.#call(async () => {
            const [request] = args as readonly Partial<LaunchRequest>[];
            if (name === "launch" && this.#world.refuses?.test(request?.launchType ?? "") === true)
              throw new CloudError("CLOUD_QUOTA", `Too many machines ${request?.launchType}`);
            if (
              name === "launch" &&
              this.#world.stuck !== undefined &&
              request?.tags?.["kip-pod-uid"] === this.#world.stuck
            )
              await untilAborted(new Promise(() => {}), args[1] as AbortSignal);
            try {
              const result: unknown = await Reflect.apply(value, target, args);
              return result;
            } finally {
              if (name === "launch") await this.#world.count(target);
            }
          });
      },
    });
  }

  /** A dead process gets no response. */
  async #call<T>(effect: () => Promise<T>): Promise<T> {
    const isLast = ++this.#calls === this.#death?.atCall;
    if (isLast && this.#death?.isBefore) this.#isDead = true;
    if (this.#isDead) return await new Promise(() => {});
    const outcome = await effect().then(
      (value) => () => value,
      (error: unknown) => () => {
        throw error;
      },
    );
    if (isLast) this.#isDead = true;
    if (this.#isDead) return await new Promise(() => {});
    return outcome();
  }
}

describe("a cloud that slows launches down", () => {
  it("gets one call at a time while it throttles, and all pods start", async () => {
    const world = new World();
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_THROTTLED", calls: 3 });
    const life = new Life(world);
    for (let age = 0; age < 6; age++) life.run(`p${age}`, { age });
    await settle();
    assert.match(life.why("p0") ?? "", /Cannot do "launch".*Kip asks again in 1 seconds/);
    await world.clock.advance(6999); // refused again after 1 and 3 seconds
    assert.deepEqual(await life.machines(), []);
    await world.clock.advance(1);
    await settle();
    assert.deepEqual(await life.machines(), ["p5 sim.1"], "the oldest comes first");
    await world.clock.advance(3000);
    await settle();
    assert.equal((await life.machines()).length, 6);
    assert.equal(life.events.filter((event) => event.includes("waits: CloudThrottled")).length, 6);
    await life.kill();
  });

  it("starts a pod above the quota when another one's machine has ended", async () => {
    const world = new World({ maxInstances: 1 });
    const life = new Life(world);
    const first = life.run("a");
    await settle();
    life.run("b");
    await settle();
    assert.match(life.why("b") ?? "", /limit of 1 instances.*Kip asks again in 5 seconds/);
    first.remove(0);
    await world.clock.advance(0);
    await settle();
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["b sim.1"]);
    await life.kill();
  });

  it("gives a pod that may have either a machine on demand above the quota of spot machines", async () => {
    const world = new World();
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    const life = new Life(world);
    life.run("spot", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    await settle();
    assert.match(life.why("spot") ?? "", /Kip asks again in 5 seconds/);
    life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    await settle();
    const bought = async (): Promise<readonly string[]> =>
      (await world.cloud.open({ owner: "kip" }).list())
        .map(({ tags, launchType }) => `${tags["kip-pod-uid"]} ${launchType}`)
        .sort();
    assert.deepEqual(await bought(), ["either on-demand"]);
    assert.equal(life.events.filter((each) => each === "either CloudQuota").length, 1);
    await world.clock.advance(5000);
    await settle();
    assert.deepEqual(await bought(), ["either on-demand", "spot spot"]);
    // The next launch is refused.
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    life.run("next", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    await settle();
    assert.deepEqual(await bought(), ["either on-demand", "next on-demand", "spot spot"]);
    await life.kill();
  });

  for (const [what, annotations] of [
    ["may have spot machines alone", { "pod.elotl.co/launch-type": "spot" }],
    [
      "allows no price of a machine on demand",
      {
        "pod.elotl.co/launch-type": "spot-or-on-demand",
        "pod.elotl.co/max-price-per-hour": "0.02",
      },
    ],
  ] as const)
    it(`leaves a pod that ${what} to the quota alone, also after the refusal of another pod`, async () => {
      const world = new World();
      const life = new Life(world);
      await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
      life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
      await settle();
      life.run("a", { annotations });
      await settle();
      assert.deepEqual(await life.machines(), ["a sim.1", "either sim.1"], life.why("a"));
      await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
      life.run("b", { annotations });
      await settle();
      assert.match(life.why("b") ?? "", /"launch".*Kip asks again in 5 seconds/);
      await world.clock.advance(5000);
      await settle();
      assert.equal((await life.machines()).length, 3);
      await life.kill();
    });

  it("gives a pod above the quota of spot machines one when a machine has ended and there are none on demand", async () => {
    const world = new World();
    const life = new Life(world);
    const ended = life.run("ended");
    await settle();
    await world.cloud.faults.noCapacity({ launchType: "on-demand" });
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    life.run("either", { annotations: { "pod.elotl.co/launch-type": "spot-or-on-demand" } });
    await settle();
    assert.match(life.why("either") ?? "", /no capacity of .*spot/);
    ended.remove(0);
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["either sim.1"]);
    await life.kill();
  });

  it("gives a pod above both quotas whichever machine is possible first, the oldest pod first", async () => {
    const world = new World();
    const life = new Life(world);
    const ended = life.run("ended");
    await settle();
    const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    const full = async (calls: number): Promise<void> =>
      await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls });
    await full(2);
    life.run("old", { annotations, age: 1 });
    await settle();
    assert.match(life.why("old") ?? "", /Kip asks again in 5 seconds/);
    life.run("young", { annotations });
    await settle();
    assert.equal(world.cells.size, 3);
    // The quota of machines on demand stays full, that of spot machines has room again.
    world.refuses = /on-demand/;
    ended.remove(0);
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["old sim.1", "young sim.1"]);
    await life.kill();
  });

  it("gives pods with no other choice a spot machine when one has ended, one after the other", async () => {
    const world = new World();
    const life = new Life(world);
    const launchType = "pod.elotl.co/launch-type";
    const either = { [launchType]: "spot-or-on-demand" };
    const cheap = { ...either, "pod.elotl.co/max-price-per-hour": "0.02" }; // less than one on demand costs
    await world.cloud.faults.fail({ operation: "launch", code: "CLOUD_QUOTA", calls: 1 });
    life.run("cheap", { annotations: cheap, age: 1 });
    await settle();
    life.run("spot", { annotations: { [launchType]: "spot" } });
    await settle();
    for (const uid of ["cheap", "spot"]) assert.match(life.why(uid) ?? "", /Kip asks again in/);
    await world.clock.advance(1);
    const ended = life.run("ended");
    await settle();
    ended.remove(0);
    await world.clock.advance(0);
    await settle();
    assert.deepEqual(await life.machines(), ["cheap sim.1", "spot sim.1"]);
    await life.kill();
  });

  for (const [what, leave] of [
    ["is deleted while it launches", (first: CellWorker) => first.remove(0)],
    ["cannot be launched at all", undefined],
  ] as const)
    it(`lets the next pod try at once when the one whose turn it is ${what}`, async () => {
      const world = new World();
      const { faults } = world.cloud;
      const life = new Life(world);
      const ended = life.run("ended");
      await settle();
      world.refuses = /spot/;
      const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
      await faults.noCapacity({ launchType: "on-demand" });
      const first = life.run("first", { annotations, age: 2 });
      life.run("next", { annotations, age: 1 });
      await settle();
      world.refuses = undefined;
      if (leave) world.stuck = "first";
      else await faults.fail({ operation: "launch", code: "CLOUD_AUTH" });
      ended.remove(0);
      await world.clock.advance(0);
      await settle();
      assert.deepEqual(await life.machines(), leave ? [] : ["next sim.1"]);
      leave?.(first);
      await settle();
      assert.deepEqual(await life.machines(), ["next sim.1"]);
      await life.kill();
    });

  it("lets one pod above both quotas try when many machines end together", async () => {
    const world = new World();
    const life = new Life(world);
    const ended = Array.from({ length: 20 }, (_, n) => life.run(`ended${n}`));
    await settle();
    world.refuses = /spot|on-demand/;
    const annotations = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    for (let n = 0; n < 20; n++) life.run(`p${n}`, { annotations, age: 20 - n });
    await settle();
    const before = world.created;
    const { promise, resolve } = Promise.withResolvers<void>();
    world.removable = promise;
    for (const worker of ended) worker.remove(0);
    await world.clock.advance(0);
    await settle();
    resolve();
    for (let i = 0; i < 5; i++) {
      await world.clock.advance(1);
      await settle();
    }
    assert.deepEqual(await life.machines(), []);
    // Two tries, each with a Cell of a spot machine and then one on demand.
    assert.equal(world.created - before, 4);
    await life.kill();
  });
});

describe("a cloud without capacity", () => {
  it("gives a pod the next best type at once, and remembers that for others", async () => {
    const world = new World();
    await world.cloud.faults.noCapacity({ instanceType: "sim.1" });
    const life = new Life(world);
    life.run("a");
    await settle();
    life.run("b");
    await settle();
    assert.deepEqual(await life.machines(), ["a sim.2", "b sim.2"]);
    assert.equal(world.cloud.callCount("launch"), 2, "the refused one did not reach the cloud");
    assert.deepEqual(
      life.events.filter((event) => event.includes("Capacity")),
      ["a CloudNoCapacity"],
    );
    await life.kill();
  });

  it("keeps to the types and launch types that the pod allows, and says what it waits for", async () => {
    const world = new World();
    const { faults } = world.cloud;
    await faults.noCapacity({ instanceType: "sim.2" });
    await faults.noCapacity({ launchType: "spot" });
    const life = new Life(world);
    life.run("only", { annotations: { "pod.elotl.co/instance-type": "sim.2" } });
    life.run("spot", { annotations: { "pod.elotl.co/launch-type": "spot" } });
    life.run("large", { cpu: "2" });
    await settle();
    assert.deepEqual(await life.machines(), ["large sim.4"]);
    assert.match(life.why("only") ?? "", /no capacity of type sim\.2\. Kip tries again at 20/);
    assert.match(life.why("spot") ?? "", /no capacity of spot\. /);
    assert.equal(world.cells.size, 1, "a Cell that cannot be started does not stay");
    await faults.clear();
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["large sim.4", "only sim.2", "spot sim.1"]);
    await life.kill();
  });

  it("goes from spot to on-demand machines, but not above the price limit of the pod", async () => {
    const world = new World();
    const { faults } = world.cloud;
    await faults.noCapacity({ launchType: "spot" });
    await faults.noCapacity({ instanceType: "sim.1" });
    const life = new Life(world);
    const either = { "pod.elotl.co/launch-type": "spot-or-on-demand" };
    life.run("either", { annotations: either });
    await settle();
    life.run("cheap", { annotations: { ...either, "pod.elotl.co/max-price-per-hour": "0.05" } });
    await settle();
    assert.deepEqual(await life.machines(), ["either sim.2"]);
    assert.match(life.why("cheap") ?? "", /no capacity of spot; type sim\.1\. /);
    await faults.clear();
    await world.clock.advance(30_000);
    await settle();
    assert.deepEqual(await life.machines(), ["cheap sim.1", "either sim.2"]);
    await life.kill();
  });

  it("asks for the pod that was created first when the time has passed, not for all", async (t) => {
    const world = new World();
    const { faults } = world.cloud;
    await faults.noCapacity({});
    const life = new Life(world);
    for (let age = 0; age < 5; age++) life.run(`p${age}`, { age });
    await settle();
    await world.clock.advance(29_000);
    const { mock } = t.mock.method(world, "create");
    await world.clock.advance(1000);
    await settle();
    assert.equal(mock.callCount(), 1);
    assert.equal(life.events.at(-1), "p4 waits: CloudNoCapacity");
    await faults.clear();
    await world.clock.advance(60_000);
    await settle();
    assert.equal((await life.machines()).length, 5);
    await life.kill();
    await world.clock.advance(10_000); // statuses of Cells are written
    assert.equal(world.clock.sleepers, 0);
  });

  it("looks at a new version of a pod at once, and forgets one that is removed", async () => {
    const world = new World();
    await world.cloud.faults.noCapacity({ instanceType: "sim.4" });
    const life = new Life(world);
    const worker = life.run("p", { cpu: "4" });
    const gone = life.run("gone", { cpu: "4" });
    await settle();
    assert.deepEqual(await life.machines(), []);
    gone.remove(0);
    await gone.settled;
    const { resolved } = worker.state.pod;
    assert.ok(resolved);
    const containers = [{ name: "main", resources: { requests: { cpu: "2" } } }];
    worker.apply({ ...resolved, pod: { ...resolved.pod, spec: { containers } } });
    await settle();
    assert.deepEqual(await life.machines(), ["p sim.2"]);
    await life.kill();
    await world.clock.advance(0); // the machine has started
    await world.clock.advance(10_000); // statuses of Cells are written
    assert.equal(world.clock.sleepers, 0);
  });

  it("uses the machine of a launch that was refused and done all the same", async () => {
    const world = new World();
    await world.cloud.faults.fail({
      operation: "launch",
      code: "CLOUD_NO_CAPACITY",
      moment: "after",
    });
    const life = new Life(world);
    life.run("p");
    await settle();
    assert.deepEqual([await life.machines(), world.most], [["p sim.1"], 1]);
    await life.kill();
  });

  it("starts one machine, whenever kip is killed and whatever answer is lost", async () => {
    const deaths = fc.array(
      fc.record({ atCall: fc.integer({ min: 1, max: 14 }), isBefore: fc.boolean() }),
      { maxLength: 4 },
    );
    const lost = fc.array(
      fc.constantFrom("CLOUD_UNAVAILABLE" as const, "CLOUD_NO_CAPACITY" as const),
      { maxLength: 3 },
    );
    const short = fc.subarray(["sim.1", "sim.2"]);
    await fc.assert(
      fc.asyncProperty(deaths, lost, short, async (series, codes, types) => {
        const world = new World();
        const { faults } = world.cloud;
        for (const instanceType of types) await faults.noCapacity({ instanceType });
        for (const code of codes) await faults.fail({ operation: "launch", code, moment: "after" });
        for (const death of series) {
          const life = new Life(world, death);
          life.run("p");
          await settle();
          await life.kill();
        }
        const life = new Life(world);
        life.run("p");
        for (let turn = 0; turn < 40; turn++) {
          await settle();
          await world.clock.advance(10_000);
        }
        assert.equal((await life.machines()).length, 1);
        assert.deepEqual([world.cells.size, world.most], [1, 1]);
        await life.kill();
      }),
      { numRuns: 25 },
    );
  });
});
