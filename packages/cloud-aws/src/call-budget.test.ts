import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import type { Filter, RunInstancesCommandInput } from "@aws-sdk/client-ec2";
import { ManualClock } from "@kip/testing";
import { describedInstance, fakeCloud, launchRequest, reservations } from "./testing/fake-ec2.ts";

const page = path.join(import.meta.dirname, "../../../docs/aws.md");
/** From the launch until an instance runs, and from its end being asked for until it has ended; milliseconds. */
const [bootMs, stopMs, lifeMs] = [16_000, 30_000, 60_000];

/** What EC2 is called for by pods that start `everyMs` apart, each of which runs for a minute. */
async function callsOf(pods: number, everyMs: number): Promise<ReadonlyMap<string, number>> {
  const clock = new ManualClock();
  const times = new Map<string, { readonly launched: number; ended?: number }>();
  const shown = (id: string) => {
    const { launched = 0, ended } = times.get(id) ?? {};
    const now = clock.monotonic();
    if (ended === undefined) return now - launched < bootMs ? "pending" : "running";
    return now - ended < stopMs ? "shutting-down" : "terminated";
  };
  const { cloud, actions } = fakeCloud(clock, {
    DescribeImages: () => ({
      Images: [{ ImageId: "ami-1", RootDeviceName: "/dev/xvda", State: "available" }],
    }),
    RunInstances: ({ ClientToken = "" }: RunInstancesCommandInput) => {
      times.set(ClientToken, { launched: clock.monotonic() });
      return { Instances: [describedInstance(ClientToken, "pending")] };
    },
    DescribeInstances: ({ Filters = [] }) => {
      const ids = Filters.find(({ Name }: Filter) => Name === "instance-id")?.Values ?? [];
      return reservations(...ids.map((id: string) => describedInstance(id, shown(id))));
    },
    TerminateInstances: ({ InstanceIds = [] }) => {
      for (const id of InstanceIds)
        times.set(id, { launched: 0, ...times.get(id), ended: clock.monotonic() });
      return {};
    },
  });
  const live = async (index: number): Promise<void> => {
    await clock.sleep(index * everyMs);
    const image = await cloud.resolveImage({});
    const { id } = await cloud.launch({ ...launchRequest, token: `uid-${index}`, image });
    await cloud.waitForRunning(id);
    await clock.sleep(lifeMs);
    await cloud.terminate(id);
    await cloud.waitForTerminated(id);
  };
  // The group of the cells is made ready once for an installation.
  const settled = { isDone: false };
  const all = Promise.all(Array.from({ length: pods }, (_each, index) => live(index))).then(() => {
    settled.isDone = true;
  });
  for (let s = 0; s < 2000 && !settled.isDone; s++) await clock.advance(500);
  await all;
  const counts = new Map<string, number>();
  for (const action of actions) counts.set(action, (counts.get(action) ?? 0) + 1);
  return counts;
}

const rows: readonly (readonly [name: string, pods: number, everyMs: number])[] = [
  ["1 pod alone", 1, 0],
  ["10 at once", 10, 0],
  ["100 at once", 100, 0],
  ["100, one a second", 100, 1000],
];
const columns = ["DescribeImages", "RunInstances", "DescribeInstances", "TerminateInstances"];
/** Once for an installation, not for each pod. */
const ofInstallation = new Set(["DescribeVpcs", "DescribeSecurityGroups"]);

describe("calls of EC2 for a plain pod", () => {
  it("are at most 4 where pods share look-ups, as the table of docs/aws.md says", async () => {
    const text = await readFile(page, "utf8");
    for (const [name, pods, everyMs] of rows) {
      const counts = await callsOf(pods, everyMs);
      const others = [...counts.keys()].filter((action) => !columns.includes(action));
      assert.ok(
        others.every((action) => ofInstallation.has(action)),
        others.join(),
      );
      const perPod = columns.map((action) => (counts.get(action) ?? 0) / pods);
      const sum = perPod.reduce((total, each) => total + each, 0);
      if (pods > 1) assert.ok(sum <= 4, `${name}: ${sum}`);
      const line = `| ${[name, ...[...perPod, sum].map((each) => String(Number(each.toFixed(2))))].join(" | ")} |`;
      assert.ok(text.includes(line), `docs/aws.md lacks the line ${line}`);
    }
  });
});
