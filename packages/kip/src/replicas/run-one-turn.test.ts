import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { paths } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { ApiServer } from "../testing/faults/api-server.ts";
import { turnLease, turnNamespace, type TurnParts } from "./run-in-turns.ts";
import { runOneTurn } from "./run-one-turn.ts";

const limitMs = 60_000;

let clock: ManualClock;
let api: ApiServer;

beforeEach(() => {
  clock = new ManualClock();
  api = new ApiServer(clock);
});

/** Resolves with the outcome of one turn. */
function turnOf(work: (parts: TurnParts) => Promise<string>) {
  const { signal } = new AbortController();
  const driver = createSimulatedCloud({ clock }).open({ owner: "us" });
  const common = { client: api.client, driver, nodeName: "old", clock, logger: silentLogger };
  const outcome: { value?: string | undefined; isOver: boolean } = { isOver: false };
  void runOneTurn({ ...common, signal, limitMs }, work).then((value) => {
    outcome.value = value;
    outcome.isOver = true;
  });
  return outcome;
}

/** Another kip takes the Lease of the node, or renews it. */
async function renewByOther(): Promise<void> {
  const path = paths.leases(turnNamespace, turnLease("old"));
  const { spec } = await api.client.get<Lease>(path);
  const renewTime = new Date(clock.now()).toISOString().replace("Z", "000Z");
  const holder = { holderIdentity: "another kip", leaseDurationSeconds: 15, leaseTransitions: 9 };
  await api.client.patch(path, { spec: { ...spec, ...holder, renewTime } }, "merge");
}

async function untilLost({ signal }: TurnParts): Promise<never> {
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  throw new Error("The turn is lost");
}

describe("runOneTurn()", () => {
  it("does not limit the work", async () => {
    const outcome = turnOf(async () => {
      await clock.sleep(3 * limitMs);
      return "done";
    });
    for (let second = 0; second < 240; second++) await clock.advance(1000);
    assert.deepEqual(outcome, { isOver: true, value: "done" });
  });

  it("waits for another turn no longer than the limit when it has lost one", async () => {
    let turns = 0;
    const outcome = turnOf(async (parts) => {
      turns++;
      return await untilLost(parts);
    });
    await clock.advance(1000);
    assert.equal(turns, 1);
    let waited = 0;
    for (; waited < 600 && !outcome.isOver; waited += 5) {
      await renewByOther();
      await clock.advance(5000);
    }
    assert.deepEqual([outcome, turns], [{ isOver: true, value: undefined }, 1]);
    assert.ok(waited >= 60 && waited <= 80, `${waited} s`);
  });

  it("does the work again in another turn within the limit", async () => {
    let turns = 0;
    const outcome = turnOf(async (parts) => (++turns === 1 ? await untilLost(parts) : "done"));
    await clock.advance(1000);
    await renewByOther();
    for (let second = 0; second < 60; second++) await clock.advance(1000);
    assert.deepEqual([outcome, turns], [{ isOver: true, value: "done" }, 2]);
  });
});
