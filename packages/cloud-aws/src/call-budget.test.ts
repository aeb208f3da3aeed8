import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import type { Filter, RunInstancesCommandInput } from "@aws-sdk/client-ec2";
import { ManualClock } from "@kip/testing";
import { describedInstance, fakeCloud, launchRequest, reservations } from "./testing/fake-ec2.ts";

const page = path.join(import.meta.dirname, "../../../docs/aws.md");

/** How long the phases of an instance take, milliseconds. */
interface Times {
  /** From the launch until the instance runs. */
  readonly pendingMs: number;
  /** From then until its agent answers. */
  readonly bootMs: number;
}

/** Evenly spread numbers from 0 to 1. Series with different `step` differ. */
function spread(index: number, step: number): number {
  return ((index * step) % 101) / 101;
}

/** Times of usual instances: the agents of pods that start together do not all answer at the same moment. */
function usual(index: number): Times {
  return { pendingMs: 16_000, bootMs: 10_000 + 4000 * spread(index, 37) };
}
/** Time from the call that ends an instance until it has ended, and how long a pod runs, milliseconds. */
const [stopMs, lifeMs] = [30_000, 60_000];

interface Pods {
  readonly pods: number;
  /** Time from the start of one pod to that of the next. */
  readonly everyMs: number;
  readonly times: (index: number) => Times;
  /** Whether the driver is informed when the agent answers. @default true */
  readonly areHeard?: boolean;
}

/** Runs pods, and returns the calls to EC2 and when each pod could start, milliseconds after its launch. */
async function livesOf({ pods, everyMs, times, areHeard = true }: Pods) {
  const clock = new ManualClock();
  const known = new Map<
    string,
    { readonly launched: number; readonly of: Times; ended?: number }
  >();
  const shown = (id: string) => {
    const { launched = 0, of = usual(0), ended } = known.get(id) ?? {};
    const now = clock.monotonic();
    if (ended === undefined) return now - launched < of.pendingMs ? "pending" : "running";
    return now - ended < stopMs ? "shutting-down" : "terminated";
  };
  let lists = 0;
  const { cloud, actions } = fakeCloud(clock, {
    DescribeImages: () => ({
      Images: [{ ImageId: "ami-1", RootDeviceName: "/dev/xvda", State: "available" }],
    }),
    RunInstances: ({ ClientToken: id = "" }: RunInstancesCommandInput) => {
      const of = times(Number(/^uid-(\d+)/.exec(id)?.[1]));
      known.set(id, { launched: clock.monotonic(), of });
      return { Instances: [describedInstance(id, "pending")] };
    },
    DescribeInstances: ({ Filters = [] }) => {
      const filter = Filters.find(({ Name }: Filter) => Name === "instance-id");
      if (!filter) lists++;
      const ids: readonly string[] = filter?.Values ?? [...known.keys()];
      return reservations(...ids.map((id) => describedInstance(id, shown(id))));
    },
    TerminateInstances: ({ InstanceIds = [] }) => {
      for (const id of InstanceIds)
        known.set(id, { launched: 0, of: usual(0), ...known.get(id), ended: clock.monotonic() });
      return {};
    },
  });
  const stop = cloud.onTerminated(() => {});
  const live = async (index: number): Promise<number> => {
    await clock.sleep(index * everyMs);
    const image = await cloud.resolveImage({});
    const { id } = await cloud.launch({ ...launchRequest, token: `uid-${index}`, image });
    const launched = clock.monotonic();
    const { pendingMs, bootMs } = times(index);
    const answersAt = launched + pendingMs + bootMs;
    const answers = async (_address: string, signal: AbortSignal): Promise<void> =>
      await clock.sleep(answersAt - clock.monotonic(), signal);
    await cloud.waitForRunning(id, undefined, areHeard ? answers : undefined);
    const startedAt = Math.max(clock.monotonic(), answersAt);
    await clock.sleep(lifeMs);
    await cloud.terminate(id);
    await cloud.waitForTerminated(id);
    return startedAt - launched;
  };
  // The first cell of an installation sets up the security group.
  const settled = { isDone: false };
  const all = Promise.all(Array.from({ length: pods }, (_each, index) => live(index)));
  void all.then(() => (settled.isDone = true));
  for (let s = 0; s < 40_000 && !settled.isDone; s++) await clock.advance(500);
  stop();
  const counts = new Map<string, number>([["DescribeInstances", -lists]]);
  for (const action of actions) counts.set(action, (counts.get(action) ?? 0) + 1);
  return { counts, startsMs: await all };
}

const rows: readonly (readonly [name: string, pods: number, everyMs: number])[] = [
  ["1 pod alone", 1, 0],
  ["10 at once", 10, 0],
  ["100 at once", 100, 0],
  ["100, one a second", 100, 1000],
];
const columns = ["DescribeImages", "RunInstances", "DescribeInstances", "TerminateInstances"];
/** Actions that are called once for an installation, not for each pod. */
const ofInstallation = new Set(["DescribeVpcs", "DescribeSecurityGroups"]);

describe("calls of EC2 for a plain pod", () => {
  it("are at most 4, as the table of docs/aws.md says", async () => {
    const text = await readFile(page, "utf8");
    for (const [name, pods, everyMs] of rows) {
      const { counts } = await livesOf({ pods, everyMs, times: usual });
      const others = [...counts.keys()].filter((action) => !columns.includes(action));
      assert.ok(
        others.every((action) => ofInstallation.has(action)),
        others.join(),
      );
      const perPod = columns.map((action) => (counts.get(action) ?? 0) / pods);
      const sum = perPod.reduce((total, each) => total + each, 0);
      assert.ok(sum <= 4, `${name}: ${sum}`);
      const line = `| ${[name, ...[...perPod, sum].map((each) => String(Number(each.toFixed(2))))].join(" | ")} |`;
      assert.ok(text.includes(line), `docs/aws.md lacks the line ${line}`);
    }
  });

  it("start no pod later than looks every 2 s would, whatever an instance takes", async () => {
    const kinds: readonly (readonly [pending: number, boot: number])[] = [
      [8000, 12_000],
      [25_000, 4000],
      [8000, 0],
    ];
    for (const [pending, boot] of kinds) {
      const times = (index: number): Times => ({
        pendingMs: pending * (1 + spread(index, 37)),
        bootMs: boot * (1 + spread(index, 59)),
      });
      for (const everyMs of [0, 700, 43_000]) {
        const of = { pods: 10, everyMs, times };
        const now = mean((await livesOf(of)).startsMs);
        const before = mean((await livesOf({ ...of, areHeard: false })).startsMs);
        assert.ok(now <= before + 100, `${pending}, ${boot}, ${everyMs}: ${now}, ${before}`);
      }
    }
  });
});

function mean(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0) / values.length;
}
