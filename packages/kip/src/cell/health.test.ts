import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError, type Instance } from "@kip/cloud";
import { paths } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { KipLife, KipWorld, pass, poolOf } from "../testing/kip-life.ts";
import type { CellStatus } from "../state/cell.ts";
import { lastLines } from "./steps/boot-failure.ts";

/** A world with one pod, whose agent is unreachable from now on. */
async function cut(
  isCloudAsked: boolean,
  annotations: Readonly<Record<string, string>> = {},
): Promise<{ readonly world: KipWorld; readonly life: KipLife; readonly first: Instance }> {
  const world = new KipWorld(new ManualClock());
  world.isCloudAsked = isCloudAsked;
  const life = new KipLife(world);
  await life.start();
  world.addPod("p", "100m", annotations);
  life.apply("p");
  await pass(world, 3000);
  const [first] = await world.driver.list();
  assert.ok(first);
  assert.deepEqual(world.agents.pods(), ["p"]);
  await pass(world, 20_000);
  world.agents.setReachable(first.name, false);
  return { world, life, first };
}

/** Lets minutes pass, asking the cloud every ten seconds. */
async function passAsking(world: KipWorld, life: KipLife, minutes: number): Promise<void> {
  for (let tens = 0; tens < minutes * 6; tens++) {
    await pass(world, 10_000);
    await life.provider.askCloud().catch(() => {}); // it does not answer
  }
}

async function has({ driver }: KipWorld, { id }: Instance): Promise<boolean> {
  return (await driver.list()).some((each) => each.id === id);
}

describe("health of cells", () => {
  it("by status: a cell out of reach is replaced, though the cloud says that it runs", async () => {
    const { world, life, first } = await cut(false);
    await passAsking(world, life, 2);
    assert.equal(await has(world, first), false);
    assert.equal((await world.driver.list()).length, 1);
    assert.match(life.events.join("\n"), /CellLost/);
    await life.kill();
  });

  it("by cloudAPI: it stays while the cloud says that it runs", async () => {
    const { world, life, first } = await cut(true);
    await passAsking(world, life, 30);
    assert.equal(await has(world, first), true);
    world.agents.setReachable(first.name, true);
    await pass(world, 5000);
    assert.deepEqual(world.agents.pods(), ["p"]);
    assert.doesNotMatch(life.events.join("\n"), /CellLost/);
    await life.kill();
  });

  it("by cloudAPI: it stays while the cloud does not answer", async () => {
    const { world, life, first } = await cut(true);
    let asked = 0;
    world.listed = () => {
      asked++;
      throw new CloudError("CLOUD_UNAVAILABLE", "no answer");
    };
    await passAsking(world, life, 10);
    assert.ok(asked > 50);
    assert.equal(await has(world, first), true);
    await life.kill();
  });

  it("by cloudAPI: a cell that answers stays, whatever the cloud says", async () => {
    const { world, life, first } = await cut(true);
    world.agents.setReachable(first.name, true);
    await pass(world, 15_000);
    world.listed = () => [];
    await passAsking(world, life, 5);
    assert.deepEqual(world.agents.pods(), ["p"]);
    assert.equal(await has(world, first), true);
    await life.kill();
  });

  it("by cloudAPI: without either for the time limit it is replaced", async () => {
    const { world, life, first } = await cut(true);
    world.listed = (instances) => instances.filter(({ id }) => id !== first.id);
    await passAsking(world, life, 2);
    assert.match(life.events.join("\n"), /CellLost/);
    await pass(world, 5000);
    assert.equal(await has(world, first), false);
    assert.deepEqual(world.agents.pods(), ["p"]);
    await life.kill();
  });

  it("has the time limit of the pod's annotation; 0 is none", async () => {
    const annotations = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
    const { world, life, first } = await cut(false, annotations);
    await passAsking(world, life, 30);
    assert.equal(await has(world, first), true);
    await life.kill();
  });
});

describe("a cell that is to end while its agent is out of reach", () => {
  const never = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
  for (const [health, isCloudAsked, annotations] of [
    ["status", false, {}],
    ["no time limit", false, never],
    ["cloudAPI", true, {}],
  ] as const) {
    it(`ends within a minute after its pod; ${health}`, async () => {
      const { world, life, first } = await cut(isCloudAsked, annotations);
      await passAsking(world, life, 1 / 6);
      const pod = world.pods.get("p");
      assert.ok(pod);
      void life.provider.finish(pod, new AbortController().signal).catch(() => {}); // kip ends
      await passAsking(world, life, 1);
      assert.equal(await has(world, first), false);
      await life.kill();
    });

    it(`ends within a minute after a user has deleted it; ${health}`, async () => {
      const { world, life, first } = await cut(isCloudAsked, annotations);
      await passAsking(world, life, 1 / 6);
      const [cell] = world.api.cells.values();
      assert.ok(cell);
      const client = world.api.client(async (effect) => await effect());
      await client.delete(paths.cells(cell.metadata.name), {});
      await passAsking(world, life, 1);
      assert.equal(await has(world, first), false);
      await pass(world, 5000);
      assert.deepEqual(world.agents.pods(), ["p"], "the pod runs elsewhere");
      await life.kill();
    });
  }
});

/** A condition of the pod's last published status, as `status reason`. */
function conditionOf({ statuses }: KipLife, type: string): string {
  const { status } = statuses.at(-1) ?? {};
  const found = status?.conditions?.find((each) => each.type === type);
  return [found?.status, found?.reason].filter((part) => part !== undefined).join(" ");
}

/** Reasons of the Cell's conditions that are false. */
function problemsOf({ api }: KipWorld): readonly string[] {
  const [cell] = api.cells.values();
  const { conditions = [] } = (cell?.status ?? {}) as CellStatus; // in kip's format
  return conditions.flatMap(({ status, reason }) => (status === "False" ? reason : []));
}

describe("a pod whose cell does not answer", () => {
  for (const isCloudAsked of [false, true]) {
    it(`is not ready after 20 to 30 seconds, and ready with the connection; ${isCloudAsked ? "cloudAPI" : "status"}`, async () => {
      const never = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
      const { world, life, first } = await cut(isCloudAsked, never);
      const before = life.statuses.at(-1)?.status;
      const { length } = life.statuses;
      await pass(world, 19_000);
      assert.deepEqual([conditionOf(life, "Ready"), life.statuses.length], ["True", length]);
      await pass(world, 11_000);
      const status = life.statuses.at(-1)?.status;
      for (const type of ["Ready", "ContainersReady"])
        assert.equal(conditionOf(life, type), "False CellUnreachable");
      assert.deepEqual(status?.containerStatuses, before?.containerStatuses);
      assert.deepEqual([status?.phase, status?.podIP], ["Running", before?.podIP]);
      await pass(world, 2000);
      assert.deepEqual(problemsOf(world), ["AgentUnreachable"]);
      await passAsking(world, life, 30);
      assert.equal(life.statuses.length, length + 1, "one write, however long it lasts");
      world.agents.setReachable(first.name, true);
      await pass(world, 3000);
      assert.deepEqual(
        [conditionOf(life, "Ready"), conditionOf(life, "ContainersReady")],
        ["True", "True"],
      );
      assert.deepEqual(life.statuses.at(-1)?.status.containerStatuses, before?.containerStatuses);
      assert.deepEqual(problemsOf(world), []);
      assert.equal(life.events.filter((event) => event.startsWith("CellUnreachable")).length, 1);
      await life.kill();
    });
  }

  it("stays not ready while its agent answers only for moments", async () => {
    const never = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
    const { world, life, first } = await cut(false, never);
    for (let turn = 0; turn < 60; turn++) {
      world.agents.setReachable(first.name, turn % 2 === 0);
      await pass(world, 4000);
    }
    assert.equal(conditionOf(life, "Ready"), "False CellUnreachable");
    const { length } = life.statuses;
    assert.ok(length < 10, `${length} statuses`);
    world.agents.setReachable(first.name, true);
    await pass(world, 320_000); // the longest pause between two connections
    assert.equal(conditionOf(life, "Ready"), "True");
    await life.kill();
  });

  it("becomes so a minute after a restart of kip, not sooner, with all else that its status has", async () => {
    const never = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
    const { world, life, first } = await cut(false, never);
    const { status } = life.statuses.at(-1) ?? {};
    assert.ok(status);
    await life.kill();
    const pod = world.pods.get("p");
    assert.ok(pod);
    const others = { type: "x/other", status: "True" };
    const conditions = [...(status.conditions ?? []), others];
    world.pods.set("p", { ...pod, status: { ...status, conditions } });
    const next = new KipLife(world);
    await next.start();
    // Kip itself may need this long for thousands of cells.
    await pass(world, 59_000);
    assert.equal(next.statuses.length, 0);
    await pass(world, 17_000);
    assert.equal(conditionOf(next, "Ready"), "False CellUnreachable");
    assert.equal(conditionOf(next, "x/other"), "", "others write that");
    const shown = next.statuses.at(-1)?.status;
    assert.deepEqual({ ...shown, conditions }, { ...status, conditions });
    world.agents.setReachable(first.name, true);
    await pass(world, 3000);
    assert.equal(conditionOf(next, "Ready"), "True");
    await next.kill();
  });
});

describe("a machine that does not come up", () => {
  it("leaves the end of its console as an event of the pod, which gets another one", async () => {
    const world = new KipWorld(new ManualClock());
    world.agents.isAnswering = false;
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 50_000);
    assert.doesNotMatch(life.events.join("\n"), /CellBootFailed/);
    world.agents.isAnswering = true;
    await pass(world, 60_000);
    const failures = life.events.filter((event) => event.startsWith("CellBootFailed"));
    assert.equal(failures.length, 1);
    assert.match(failures[0] ?? "", /ended before its agent answered\. The end of its console:\n./);
    assert.deepEqual(world.agents.pods(), ["p"]);
    await life.kill();
  });

  it("does so if it ends by itself", async () => {
    const world = new KipWorld(new ManualClock());
    world.agents.isAnswering = false;
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 5000);
    const [first] = await world.driver.list();
    await world.cloud.faults.kill(first?.id ?? "");
    await pass(world, 5000);
    assert.match(life.events.join("\n"), /CellBootFailed: Instance/);
    await life.kill();
  });
});

describe("an instance whose end was not reported while its agent does not answer", () => {
  async function endAll({ driver, ended }: KipWorld): Promise<void> {
    for (const { id } of await driver.list()) ended.add(id);
  }

  it("counts as gone when the cloud has it no longer, after the usual time to boot", async () => {
    const world = new KipWorld(new ManualClock());
    world.agents.isAnswering = false;
    const life = new KipLife(world, { bootMs: 1_200_000 });
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 5000);
    await endAll(world);
    world.agents.isAnswering = true;
    await passAsking(world, life, 5 / 6);
    assert.doesNotMatch(life.events.join("\n"), /CellLost/);
    await passAsking(world, life, 1 / 2);
    assert.match(life.events.join("\n"), /CellLost/);
    assert.deepEqual(world.agents.pods(), ["p"]);
    await life.kill();
  });

  it("counts as gone although the pod's annotation sets no time limit", async () => {
    const never = { "pod.elotl.co/healthcheck-healthy-timeout": "0" };
    const { world, life } = await cut(false, never);
    await endAll(world);
    await passAsking(world, life, 3 / 2);
    assert.match(life.events.join("\n"), /CellLost/);
    await life.kill();
  });

  it("counts as gone for a standby cell, too", async () => {
    const world = new KipWorld(new ManualClock());
    world.agents.isAnswering = false;
    world.pools = [poolOf("sim.1", 1)];
    const life = new KipLife(world, { bootMs: 1_200_000 });
    await life.start();
    await pass(world, 5000);
    const [before] = world.api.cells.keys();
    await endAll(world);
    world.agents.isAnswering = true;
    await passAsking(world, life, 3 / 2);
    assert.ok(before !== undefined && !world.api.cells.has(before));
    await life.kill();
  });

  it("is not asked for while the agents answer within the usual time", async () => {
    const world = new KipWorld(new ManualClock());
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 3000);
    let lists = 0;
    world.listed = (instances) => {
      lists++;
      return instances;
    };
    await passAsking(world, life, 3);
    assert.equal(lists, 0);
    await life.kill();
  });
});

describe("lastLines()", () => {
  it("has whole lines, without what controls a terminal", () => {
    const text = "a\r\n\u001b[31mkernel\u001b[0m panic\u0007\n\n  end\u202e \n";
    assert.equal(lastLines(text), "a\nkernel panic\n  end");
  });

  it("fits into an event, and keeps the end", () => {
    const many = Array.from({ length: 99 }, (_, at) => `${at} ${"ä".repeat(60)}`).join("\n");
    const shown = lastLines(many);
    assert.ok(Buffer.byteLength(shown) <= 700);
    assert.match(shown, /^94 ä+\n.*\n98 ä+$/s);
    assert.ok(Buffer.byteLength(lastLines("x".repeat(9000))) === 700);
    assert.equal(lastLines("\n \n"), "");
  });
});
