import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Host, Instance } from "@aws-sdk/client-ec2";
import type { LaunchRequest } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import type { Ec2Calls } from "../ec2/ec2-calls.ts";
import {
  awsError,
  describedInstance,
  fakeCloud,
  launchRequest,
  reservations,
  type Answers,
} from "../testing/fake-ec2.ts";

const request: LaunchRequest = {
  ...launchRequest,
  instanceType: "m5.large",
  launchType: "dedicated",
};

/** What happens to one call: it has no effect, its response is lost, or its process is killed before it gets the response. */
type Trouble = "throttled" | "lost" | "killed before it is done" | "killed after it is done";
const troubles: readonly Trouble[] = [
  "throttled",
  "lost",
  "killed before it is done",
  "killed after it is done",
];

/** Hosts with room for one instance each, and instances. Responses lack everything younger than `lagMs`. */
class World {
  readonly clock = new ManualClock();
  readonly hosts: { id: string; asked: Ec2Calls["AllocateHosts"][0]; atMs: number }[] = [];
  readonly released = new Set<string>();
  readonly instances: { id: string; host: string; token: string; atMs: number }[] = [];
  readonly ended = new Set<string>();
  calls = 0;
  /** Number of the call that fails. */
  at = -1;
  readonly lagMs: number;
  readonly trouble: Trouble;

  constructor(trouble: Trouble, lagMs: number) {
    this.trouble = trouble;
    this.lagMs = lagMs;
  }

  /** A kip process on this EC2. */
  open() {
    const { answers } = this;
    const troubled = Object.entries(answers).map(([action, answer]) => [
      action,
      async (input: never) => await this.#call(answer, input),
    ]);
    return fakeCloud(this.clock, Object.fromEntries(troubled) as Answers, { dedicatedHosts: true });
  }

  get kept(): readonly string[] {
    return this.hosts.map(({ id }) => id).filter((id) => !this.released.has(id));
  }

  get living(): readonly string[] {
    return this.instances.map(({ id }) => id).filter((id) => !this.ended.has(id));
  }

  async #call(answer: (input: never) => unknown, input: never): Promise<unknown> {
    if (this.calls++ !== this.at) return answer(input);
    if (this.trouble === "throttled") throw awsError("RequestLimitExceeded");
    if (this.trouble !== "killed before it is done") answer(input);
    if (this.trouble !== "lost") return await new Promise(() => {});
    throw Object.assign(new Error("lost"), { code: "ECONNRESET" });
  }

  readonly answers = {
    AllocateHosts: (asked: Ec2Calls["AllocateHosts"][0]) => {
      const known = this.hosts.find((each) => each.asked.ClientToken === asked.ClientToken);
      const id = known?.id ?? `h-${this.hosts.length + 1}`;
      if (!known) this.hosts.push({ id, asked, atMs: this.clock.monotonic() });
      return { HostIds: [id] };
    },
    DescribeHosts: () => ({
      Hosts: this.hosts.filter((each) => this.#isSeen(each)).map(this.#host),
    }),
    ReleaseHosts: ({ HostIds = [] }: Ec2Calls["ReleaseHosts"][0]) => {
      for (const id of HostIds) if (this.#on(id).length === 0) this.released.add(id);
      return {};
    },
    DescribeInstances: () =>
      reservations(...this.instances.filter((each) => this.#isSeen(each)).map(this.#instance)),
    RunInstances: ({ ClientToken: token = "", Placement }: Ec2Calls["RunInstances"][0]) => {
      if (this.instances.some((each) => each.token === token))
        throw awsError("IdempotentParameterMismatch");
      const host = this.hosts.find(({ id }) => id === Placement?.HostId);
      if (!host || !this.#isSeen(host) || this.released.has(host.id))
        throw awsError("InvalidHostID.NotFound");
      if (this.#on(host.id).length > 0) throw awsError("InsufficientCapacityOnHost");
      const one = { id: `i-${this.instances.length + 1}`, host: host.id, token };
      this.instances.push({ ...one, atMs: this.clock.monotonic() });
      return { Instances: [this.#instance(one)] };
    },
    TerminateInstances: ({ InstanceIds = [] }: Ec2Calls["TerminateInstances"][0]) => {
      for (const id of InstanceIds) this.ended.add(id);
      return {};
    },
  } as const satisfies Answers;

  #isSeen({ atMs }: { readonly atMs: number }): boolean {
    return this.clock.monotonic() - atMs >= this.lagMs;
  }

  #on(host: string): readonly string[] {
    return this.instances
      .filter((each) => each.host === host && !this.ended.has(each.id))
      .map(({ id }) => id);
  }

  readonly #host = ({ id, asked, atMs }: World["hosts"][number]): Host => ({
    HostId: id,
    AvailabilityZone: asked.AvailabilityZone,
    HostProperties: { InstanceType: asked.InstanceType },
    Tags: asked.TagSpecifications?.[0]?.Tags,
    AllocationTime: new Date(this.clock.now() - (this.clock.monotonic() - atMs)),
    State: this.released.has(id) ? "released" : "available",
    Instances: this.#on(id).map((InstanceId) => ({ InstanceId })),
    AvailableCapacity: {
      AvailableInstanceCapacity: [
        { InstanceType: asked.InstanceType, AvailableCapacity: 1 - this.#on(id).length },
      ],
    },
  });

  readonly #instance = ({ id, token }: { readonly id: string; readonly token: string }): Instance =>
    describedInstance(id, this.ended.has(id) ? "terminated" : "running", { clientToken: token });
}

/** Behaves like kip: repeats what failed. If a process was killed, the next one repeats it. */
class Kip {
  readonly #world: World;
  #cloud: ReturnType<World["open"]>["cloud"];

  constructor(world: World) {
    this.#world = world;
    this.#cloud = world.open().cloud;
  }

  async does(step: (cloud: ReturnType<World["open"]>["cloud"]) => Promise<unknown>): Promise<void> {
    const { clock, at, calls } = this.#world;
    for (let attempt = 0; attempt < 5; attempt++) {
      const outcome = { state: "pending" };
      void step(this.#cloud).then(
        () => (outcome.state = "done"),
        () => (outcome.state = "failed"),
      );
      for (let s = 0; s < 300 && outcome.state === "pending"; s++) await clock.advance(1000);
      if (outcome.state === "done") return;
      if (outcome.state === "pending") this.#cloud = this.#world.open().cloud;
    }
    assert.fail(`call ${at} of ${calls}`);
  }
}

describe("dedicated hosts, when one call has trouble", () => {
  for (const trouble of troubles)
    for (const lagMs of [0, 20_000])
      it(`pays for one host and leaves none: ${trouble}, answers lag ${lagMs / 1000} s`, async () => {
        for (let at = 0, hadTrouble = true; hadTrouble; at++) {
          const world = new World(trouble, lagMs);
          world.at = at;
          const kip = new Kip(world);
          await kip.does(async (cloud) => await cloud.launch(request));
          assert.deepEqual([world.kept.length, world.living.length], [1, 1], `call ${at}`);
          for (const id of world.living) await kip.does(async (cloud) => await cloud.terminate(id));
          for (let looks = 0; looks < 5; looks++) {
            await world.clock.advance(45_000);
            await kip.does(async ({ hosts }) => await hosts?.releaseEmpty());
          }
          assert.deepEqual([world.kept, world.living], [[], []], `call ${at}`);
          hadTrouble = world.calls > at;
        }
      });
});
