import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { CloudError, type LaunchType } from "@kip/cloud";
import { K8sError } from "@kip/k8s-client";
import { Reconciler } from "@kip/reconcile";
import { ManualClock } from "@kip/testing";
import type { CellStepArgs } from "./cell-step.ts";
import { isCostly, Outages } from "./outages.ts";
import { stepBackoff } from "./step-backoff.ts";

const away = new K8sError("K8S_UNAVAILABLE", "no answer");

function start() {
  const clock = new ManualClock();
  const outages = new Outages({ clock });
  const retried: string[] = [];
  const fail = (name: string, error: unknown = away, waits = true, isCostly = false): void => {
    const retry = (): boolean => {
      retried.push(name);
      return waits;
    };
    outages.failed("createCell", error, workerOf(name), { retry, isCostly });
  };
  const workers = new Map<string, object>();
  const workerOf = (name: string): object => {
    const worker = workers.get(name) ?? {};
    workers.set(name, worker);
    return worker;
  };
  return { clock, outages, retried, fail };
}

describe("Outages", () => {
  it("repeats one step every ten seconds, in turn, and none that no longer waits", async () => {
    const { clock, retried, fail } = start();
    fail("gone", away, false);
    for (const name of ["a", "b", "c"]) fail(name);
    await clock.advance(10_000);
    assert.deepEqual(retried.splice(0), ["gone", "a"]);
    fail("a");
    await clock.advance(9000);
    assert.deepEqual(retried, []);
    await clock.advance(21_000);
    assert.deepEqual(retried, ["b", "c", "a"]);
    await clock.advance(600_000);
    assert.equal(retried.length, 3);
  });

  it("repeats two of a kind with each success, and none that has just failed", async () => {
    const { clock, outages, retried, fail } = start();
    for (const name of ["a", "b", "c"]) fail(name);
    outages.succeeded("createCell");
    await clock.advance(5000);
    fail("d");
    outages.succeeded("launch");
    assert.deepEqual(retried, []);
    outages.succeeded("createCell");
    assert.deepEqual(retried, ["a", "b"]);
    outages.succeeded("createCell");
    assert.deepEqual(retried, ["a", "b", "c"]);
  });

  it("repeats a step that costs money only when another one has succeeded", async () => {
    const { clock, outages, retried, fail } = start();
    fail("dedicated", away, true, true);
    fail("other");
    await clock.advance(60_000);
    assert.deepEqual(retried, ["other"]);
    outages.succeeded("createCell");
    assert.deepEqual(retried, ["other", "dedicated"]);
  });

  it("takes a dedicated machine's launch for one that costs money", () => {
    const cell = (launchType: LaunchType) => ({ spec: { launchType } });
    assert.ok(isCostly({ kind: "launch" }, cell("dedicated")));
    assert.ok(!isCostly({ kind: "launch" }, cell("on-demand")));
    assert.ok(!isCostly({ kind: "awaitRunning" }, cell("dedicated")));
  });

  it("takes what may be about one pod alone for an outage if no step of the kind has succeeded for a minute", async () => {
    const { clock, outages, retried, fail } = start();
    const errors = {
      auth: new CloudError("CLOUD_AUTH", "no right"),
      busy: new K8sError("K8S_TOO_MANY_REQUESTS", "busy", { retryAfterMs: 1000 }),
      calls: new CloudError("CLOUD_THROTTLED", "too many"),
    };
    outages.succeeded("createCell");
    await clock.advance(59_000);
    for (const [name, error] of Object.entries(errors)) fail(name, error);
    await clock.advance(60_000);
    assert.deepEqual(retried.splice(0), []);
    for (const [name, error] of Object.entries(errors)) fail(name, error);
    await clock.advance(30_000);
    assert.deepEqual(retried, Object.keys(errors));
  });

  it("repeats a step that lacks a permission less and less often, until one succeeds, and others as before", async () => {
    const { clock, outages, retried, fail } = start();
    const auth = new CloudError("CLOUD_AUTH", "no right");
    const times: number[] = [];
    fail("forbidden", auth);
    for (let second = 10; second <= 1100; second += 10) {
      await clock.advance(10_000);
      if (retried.splice(0).length === 0) continue;
      times.push(second);
      fail("forbidden", auth);
    }
    assert.deepEqual(times, [10, 30, 70, 150, 310, 610, 910]);
    fail("away");
    await clock.advance(10_000);
    assert.deepEqual(retried.splice(0), ["away"]);
    outages.succeeded("createCell");
    assert.deepEqual(retried.splice(0), ["forbidden"]);
    await clock.advance(60_000);
    fail("forbidden", auth);
    await clock.advance(10_000);
    assert.deepEqual(retried, ["forbidden"]);
    outages.stop();
  });

  it("takes a Cell resource that is being deleted for an outage, but no refusal, and no long pause that was asked for", async () => {
    const { clock, outages, retried, fail } = start();
    const options = { httpStatus: 405 };
    fail("deleted", new K8sError("K8S_REQUEST_FAILED", "being deleted", options));
    fail("cloud", new CloudError("CLOUD_UNAVAILABLE", "away"));
    fail("refused", new CloudError("CLOUD_INVALID_REQUEST", "no"));
    fail("throttled", new K8sError("K8S_UNAVAILABLE", "busy", { retryAfterMs: 30_000 }));
    fail("known", away);
    fail("known", new Error("another one"));
    await clock.advance(60_000);
    assert.deepEqual(retried, ["deleted", "cloud"]);
    outages.stop();
  });

  it("costs an outage one call in ten seconds more than the pauses of its pods", async () => {
    const clock = new ManualClock();
    const outages = new Outages({ clock });
    const minutes = 20;
    const pods = 20;
    let calls = 0;
    const worker = (): Reconciler<Pick<CellStepArgs, "createCell">, object, object> => {
      const reconciler = new Reconciler<Pick<CellStepArgs, "createCell">, object, object>({
        initial: {},
        plan: () => ({ steps: [{ kind: "createCell" }] }),
        reduce: (state) => state,
        executors: {
          createCell: async () => {
            calls++;
            throw away;
          },
        },
        backoff: stepBackoff,
        onFailure: ({ step: { kind }, error }) => {
          const retry = (): boolean => reconciler.tryNow(kind);
          outages.failed(kind, error, reconciler, { retry, isCostly: false });
          return undefined;
        },
        clock,
        logger: silentLogger,
      });
      return reconciler;
    };
    const workers = Array.from({ length: pods }, worker);
    for (const each of workers) each.start();
    for (let second = 0; second < minutes * 60; second++) {
      for (let turn = 0; turn < 3; turn++) await setImmediate();
      await clock.advance(1000);
    }
    // Pauses double from half a second to five minutes.
    const ownCalls = pods * 14;
    assert.ok(calls <= ownCalls + minutes * 6, `${calls} calls`);
    outages.stop();
    for (const each of workers) await each.stop();
  });
});
