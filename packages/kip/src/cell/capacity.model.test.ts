import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { CapacityScope } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { settle } from "../testing/kip-life.ts";
import { LaunchLife, LaunchWorld } from "../testing/launch-life.ts";
import type { CellWorker } from "./cell-worker.ts";

/** Pods are created one per second, from this age on, seconds. */
const firstAge = 1000;
/** The longest that a pod waits for a machine that is available: two pauses of five minutes. Milliseconds. */
const longestWaitMs = 600_000;
const zones = ["z1", "z2"];

interface ModelPod {
  readonly uid: string;
  readonly age: number;
  annotations: Readonly<Record<string, string>>;
  worker: CellWorker;
  isRemoved: boolean;
}

const annotations = fc.record(
  {
    "pod.elotl.co/launch-type": fc.constantFrom("on-demand", "spot", "spot-or-on-demand"),
    "pod.elotl.co/instance-type": fc.constantFrom("sim.1", "sim.2", "sim.*"),
    "pod.elotl.co/volume-size": fc.constantFrom("1Gi", "99Ti"),
  },
  { requiredKeys: ["pod.elotl.co/launch-type"] },
);
const scope: fc.Arbitrary<CapacityScope> = fc.record(
  {
    instanceType: fc.constantFrom("sim.1", "sim.2"),
    zone: fc.constantFrom(...zones),
    launchType: fc.constantFrom("spot", "on-demand"),
  },
  { requiredKeys: [] },
);
const fault = fc.record({
  operation: fc.constant("launch" as const),
  code: fc.constantFrom("CLOUD_THROTTLED", "CLOUD_AUTH", "CLOUD_UNAVAILABLE"),
  calls: fc.integer({ min: 1, max: 5 }),
  moment: fc.constantFrom("before", "after"),
});

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("run"), annotations }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("pass"), ms: fc.nat(120_000) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("short"), scope }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("restore"), scope }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("remove"), pod: fc.nat(20) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("correct"), pod: fc.nat(20), annotations }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("fail"), fault }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("quota"),
      refuses: fc.constantFrom(undefined, /spot/, /on-demand/, /./),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "restart" } as const) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Model {
  readonly #world = new LaunchWorld(new ManualClock());
  readonly #pods: ModelPod[] = [];
  #life = new LaunchLife(this.#world);

  constructor() {
    this.#world.mostDiskBytes = 2 ** 40;
    this.#world.zones = zones;
  }

  /** @param isSpotFull whether the quota of spot machines stays full at the end */
  async run(steps: readonly Step[], isSpotFull: boolean): Promise<void> {
    for (const each of steps) {
      await this.#take(each);
      await this.#check();
    }
    this.#world.refuses = isSpotFull ? /spot/ : undefined;
    this.#world.mostDiskBytes = Infinity;
    await this.#world.cloud.faults.clear();
    for (let ms = 0; ms < longestWaitMs; ms += 10_000) await this.#pass(10_000);
    const machines = await this.#check();
    for (const { uid, isRemoved, annotations: its } of this.#pods) {
      const mayWait = isSpotFull && its["pod.elotl.co/launch-type"] === "spot";
      if (mayWait && !isRemoved) continue;
      assert.equal(machines.includes(uid), !isRemoved, this.#life.why(uid));
    }
    assert.ok(this.#world.cells.size <= this.#pods.filter((each) => !each.isRemoved).length);
    await this.#life.kill();
  }

  async #take(given: Step): Promise<void> {
    const { cloud } = this.#world;
    if ("ms" in given) return await this.#pass(given.ms);
    if ("scope" in given && given.kind === "short") await cloud.faults.noCapacity(given.scope);
    else if ("scope" in given) await cloud.faults.restoreCapacity(given.scope);
    else if ("fault" in given) await cloud.faults.fail(given.fault);
    else if ("refuses" in given) this.#world.refuses = given.refuses;
    else if ("pod" in given)
      this.#change(given.pod, "annotations" in given ? given.annotations : undefined);
    else if ("annotations" in given) this.#start(given.annotations);
    else await this.#restart();
    await settle();
  }

  #start(wanted: ModelPod["annotations"]): void {
    const uid = `p${this.#pods.length}`;
    const age = firstAge - this.#pods.length;
    const worker = this.#life.run(uid, { age, annotations: wanted });
    this.#pods.push({ uid, age, annotations: wanted, worker, isRemoved: false });
  }

  /** Corrects a pod, or removes it. */
  #change(index: number, corrected: ModelPod["annotations"] | undefined): void {
    const pod = this.#pods[index % this.#pods.length];
    if (!pod || pod.isRemoved) return;
    if (corrected) {
      pod.annotations = corrected;
      pod.worker.apply(this.#life.resolved(pod.uid, pod));
    } else {
      pod.isRemoved = true;
      pod.worker.remove(0);
    }
  }

  async #restart(): Promise<void> {
    await this.#life.kill();
    this.#life = new LaunchLife(this.#world);
    for (const pod of this.#pods) {
      const hasCell = [...this.#world.cells.values()].some(
        (each) => each.spec.podRef.uid === pod.uid,
      );
      if (pod.isRemoved && !hasCell) continue;
      pod.worker = this.#life.run(pod.uid, pod);
      if (pod.isRemoved) pod.worker.remove(0);
    }
  }

  async #pass(ms: number): Promise<void> {
    const before = this.#world.created;
    await this.#world.clock.advance(ms);
    await settle();
    const created = this.#world.created - before;
    assert.ok(created <= 100 + 10 * this.#pods.length, `${created} Cells in ${ms} ms`);
  }

  /** Asserts that no pod has two machines. @returns the pods that have one */
  async #check(): Promise<string[]> {
    const pods = (await this.#life.machines()).map((each) => each.split(" ")[0] ?? "");
    assert.equal(new Set(pods).size, pods.length, pods.join());
    return pods;
  }
}

describe("pods in a cloud with shortages, quotas and failures", () => {
  it("each get one machine within ten minutes after the last of these", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30, size: "max" }),
        fc.boolean(),
        async (steps, isSpotFull) => await new Model().run(steps, isSpotFull),
      ),
      { numRuns: 30 },
    );
  });
});
