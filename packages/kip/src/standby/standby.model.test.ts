import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { OrphanInstances } from "../collect/orphan-instances.ts";
import { CellStore } from "../store/cell-store.ts";
import { isStandby, type Cell } from "../state/cell.ts";
import {
  KipLife,
  KipWorld,
  pass,
  poolOf,
  settle,
  type Fate,
  type Mishap,
} from "../testing/kip-life.ts";

/** Operations on kip and its world. */
type Move =
  | { readonly kind: "add"; readonly cpu: string; readonly isLarge?: boolean }
  | { readonly kind: "remove"; readonly index: number }
  | { readonly kind: "configure"; readonly counts: readonly [number, number] }
  | { readonly kind: "restart"; readonly fate: Fate }
  | { readonly kind: "endInstance" | "interrupt"; readonly index: number }
  | { readonly kind: "image"; readonly name: string }
  | { readonly kind: "cut"; readonly index: number; readonly isReachable: boolean }
  | { readonly kind: "deleteCell"; readonly index: number }
  | { readonly kind: "late" }
  | { readonly kind: "pass"; readonly ms: number };

/** Larger than the disks of standby cells. */
const largeDisk = { "pod.elotl.co/volume-size": "3Gi" };
const index = fc.nat({ max: 5 });
const effects = ["none", "done", "late"] as const;
const fate: fc.Arbitrary<Fate> = fc.record({
  mishap: fc.record({
    atCall: fc.integer({ min: 1, max: 40 }),
    effect: fc.constantFrom(...effects),
    isDeath: fc.boolean(),
  }),
  watchLag: fc.integer({ min: 1, max: 40 }),
});
const move: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      cpu: fc.constantFrom("100m", "1500m"),
      isLarge: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("remove" as const), index }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("configure" as const),
      counts: fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 2 })),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("restart" as const), fate }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("endInstance" as const, "interrupt"), index }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("image" as const),
      name: fc.constantFrom("cell", "newer"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("cut" as const), index, isReachable: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("deleteCell" as const), index }) },
  { weight: 1, arbitrary: fc.constant({ kind: "late" as const }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("pass" as const),
      ms: fc.constantFrom(0, 1000, 5000),
    }),
  },
);

/** A world in which kip is killed and restarted. A process that dies is replaced at the next move. */
class Story {
  /** Instances take so long to end that much can happen meanwhile. */
  readonly world = new KipWorld(new ManualClock(), 20_000);
  #life: KipLife;
  #pods = 0;

  readonly #atDeath: (world: KipWorld) => void;

  /** @param atDeath called while there is no kip */
  constructor(atDeath: (world: KipWorld) => void = () => {}) {
    this.#atDeath = atDeath;
    this.#life = new KipLife(this.world);
  }

  async run(moves: readonly Move[]): Promise<void> {
    await this.#life.start();
    for (const each of moves) {
      await this.#do(each);
      await this.#restartIfDead();
      await this.#life.sweep();
    }
  }

  /** Waits until everything is as it should be, without further faults. */
  async end(): Promise<void> {
    for (const write of this.world.late.splice(0)) write();
    await this.#restart();
    for (const { name } of await this.world.driver.list())
      this.world.agents.setReachable(name, true);
    const { api, driver } = this.world;
    const store = new CellStore(api.client(async (effect) => effect()));
    for (let minutes = 0; minutes < 8; minutes++) {
      await pass(this.world, 60_000, 15_000);
      await new OrphanInstances({
        driver,
        store,
        clusterID: "kip",
        metrics: { orphanTermination: () => {} },
        clock: this.world.clock,
        logger: silentLogger,
      }).collect();
      await this.#life.sweep();
    }
    await settle();
  }

  async stop(): Promise<void> {
    await this.#life.kill();
  }

  async #do(each: Move): Promise<void> {
    const { world } = this;
    const instances = await world.driver.list();
    switch (each.kind) {
      case "add": {
        const uid = `p${++this.#pods}`;
        world.addPod(uid, each.cpu, each.isLarge === true ? largeDisk : {});
        this.#life.apply(uid);
        return;
      }
      case "remove":
        return void world.pods.delete([...world.pods.keys()][each.index] ?? "");
      case "configure": {
        const [small, large] = each.counts;
        world.pools = [poolOf("sim.1", small), poolOf("sim.2", large)];
        return this.#life.standby.reconfigured();
      }
      case "restart":
        return await this.#restart(each.fate);
      case "endInstance": {
        const instance = instances[each.index];
        if (instance) await world.cloud.faults.kill(instance.id).catch(() => {}); // it has ended
        return;
      }
      case "interrupt": {
        const instance = instances[each.index];
        if (instance) await world.cloud.faults.interrupt(instance.id, 30_000).catch(() => {}); // it has ended
        return;
      }
      case "image":
        return void (world.image = each.name);
      case "cut": {
        const name = instances[each.index]?.name ?? "";
        return world.agents.setReachable(name, each.isReachable);
      }
      case "deleteCell": {
        const name = [...world.api.cells.keys()][each.index];
        const client = world.api.client(async (effect) => effect());
        if (name !== undefined) await client.delete(`/cells/${name}`).catch(() => {}); // it is gone
        return;
      }
      case "late":
        world.late.shift()?.();
        return;
      case "pass":
        return await pass(world, each.ms);
    }
  }

  async #restartIfDead(): Promise<void> {
    await settle();
    if (!this.#life.isDead) return;
    this.#atDeath(this.world);
    await this.#restart();
  }

  async #restart(fate?: Fate): Promise<void> {
    await this.#life.kill();
    this.#life = new KipLife(this.world, fate);
    await this.#life.start();
    await this.#restartIfDead();
  }
}

/** Each pod has one cell with its machine, the pools are full, and nothing else exists. */
async function assertSettled({
  api,
  agents,
  cloud,
  driver,
  image,
  pods,
  pools,
}: KipWorld): Promise<void> {
  assert.deepEqual(api.mistakes, []);
  const cells = [...api.cells.values()];
  const ofPods = cells.filter((cell): cell is Cell => !isStandby(cell));
  const uids = [...pods.keys()].sort();
  assert.deepEqual(ofPods.map(({ spec }) => spec.podRef.uid).sort(), uids, "cells of pods");
  assert.deepEqual(agents.pods(), uids, "machines of pods");
  const waiting = cells.filter(isStandby);
  for (const { instanceType, count } of pools) {
    const types = waiting.filter(({ spec }) => spec.instanceType === instanceType);
    assert.equal(types.length, count, `pool of ${instanceType}`);
    assert.ok(
      types.every(({ status }) => status?.phase === "Ready"),
      `${instanceType} is ready`,
    );
  }
  for (const { metadata, spec } of ofPods) {
    const instance = (await driver.list()).find(({ token }) => token === metadata.uid);
    const size = cloud.hardware(instance?.id ?? "").rootBytes;
    const isLarge = pods.get(spec.podRef.uid)?.metadata.annotations?.["pod.elotl.co/volume-size"];
    assert.ok(size >= (isLarge === undefined ? 1 : 3) * 2 ** 30, "the pod's disk");
  }
  assert.ok(
    waiting.every(({ spec }) => spec.image === image),
    "the image in force",
  );
  const wanted = pools.reduce((sum, { count }) => sum + count, 0);
  assert.equal(waiting.length, wanted, "standby cells");
  const tokens = (await driver.list()).map(({ token }) => token).sort();
  assert.deepEqual(tokens, cells.map(({ metadata }) => metadata.uid).sort(), "instances");
}

async function tell(moves: readonly Move[]): Promise<void> {
  const story = new Story();
  await story.run(moves);
  await story.end();
  try {
    await assertSettled(story.world);
  } finally {
    await story.stop();
  }
}

describe("standby cells, pods and kills of kip", { timeout: 400_000 }, () => {
  it("give no machine to two pods, no pod two machines, leak nothing and are filled again", async () => {
    const moves = fc.array(move, { minLength: 3, maxLength: 14 });
    await fc.assert(fc.asyncProperty(moves, tell), { numRuns: 25 });
  });

  const atDeath: Readonly<Record<string, (world: KipWorld) => void>> = {
    "nothing else happens": () => {},
    "the standby cells are out of reach": ({ api, agents }) => {
      for (const { metadata } of [...api.cells.values()].filter(isStandby))
        agents.setReachable(metadata.name, false);
    },
    "the pod is deleted": ({ pods }) => pods.clear(),
  };
  for (const [what, happens] of Object.entries(atDeath)) {
    for (const isDeath of [true, false]) {
      if (!isDeath && what !== "nothing else happens") continue;
      const mishap = isDeath ? `kip dies, and ${what}` : "the answer is lost";
      it(`come through it at each call of a claim that ${mishap}`, async () => {
        for (const effect of effects)
          for (let atCall = 1; atCall <= 20; atCall++)
            await claimWith({ atCall, effect, isDeath }, happens);
      });
    }
  }
});

/** A pod claims a cell with this mishap, another pod arrives, and then late writes take effect. */
async function claimWith(mishap: Mishap, happens: (world: KipWorld) => void): Promise<void> {
  const story = new Story(happens);
  await story.run([
    { kind: "configure", counts: [1, 0] },
    { kind: "pass", ms: 2000 },
    { kind: "restart", fate: { mishap } },
    { kind: "add", cpu: "100m" },
    { kind: "pass", ms: 3000 },
    { kind: "add", cpu: "100m" },
    { kind: "pass", ms: 0 },
    { kind: "late" },
  ]);
  await story.end();
  try {
    await assertSettled(story.world);
  } finally {
    await story.stop();
  }
}
