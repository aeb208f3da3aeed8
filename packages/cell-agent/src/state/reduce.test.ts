import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { StoredImage } from "@kip/oci-image";
import type { ContainerExit } from "@kip/oci-runtime";
import { container, desiredPod } from "../../test/desired-pod.ts";
import type { ContainerRecord, ContainerRun } from "./container-record.ts";
import type { PodChange } from "./pod-change.ts";
import { noPod, type PodState } from "./pod-state.ts";
import { reduce } from "./reduce.ts";

const image = { config: {} } as StoredImage;
const name = "registry.test/web:1";
const monotonicMs = 0;

const run = (attempt: number): ContainerRun => ({
  id: `run-${attempt}`,
  attempt,
  image: name,
  imageId: "",
  stopSignal: "SIGTERM",
  logDirectory: `/logs/${attempt}`,
});

/** The state of a pod with one container "web" after these changes. */
function after(...changes: readonly PodChange[]): PodState {
  const put: PodChange = { kind: "put", pod: desiredPod(), nowMs: 0, monotonicMs };
  return [put, ...changes].reduce(reduce, noPod);
}

function webOf({ containers }: PodState): ContainerRecord {
  const record = containers.get("web");
  assert.ok(record);
  return record;
}

const started = (attempt: number, startedAtMs = 0): readonly PodChange[] => [
  { kind: "runBegun", container: "web", run: run(attempt) },
  { kind: "started", container: "web", run: run(attempt), startedAtMs, monotonicMs },
  { kind: "startOver", container: "web", isWatched: true },
];
/** It is stopped in order to run again. */
const restarting: PodChange = { kind: "stopBegun", container: "web", message: "m", restarts: true };
const ended = (attempt: number, endedAtMs: number): PodChange => ({
  kind: "ended",
  container: "web",
  runId: `run-${attempt}`,
  exit: { exitCode: 1, reason: "Error", finishedAt: new Date(endedAtMs).toISOString() },
  endedAtMs,
  nowMs: endedAtMs,
  needsDiscard: true,
});
const ready = (of: string): PodChange => ({
  kind: "imageReady",
  container: "web",
  name: of,
  image,
  volumes: new Map(),
  attempt: 0,
  timingsMs: undefined,
  monotonicMs,
});

describe("reduce()", () => {
  it("keeps what is known of a container when the pod is put again, but for another image", () => {
    const state = after(ready(name), ...started(0), ended(0, 0));
    const put = (own: string, generation: number): PodChange => ({
      kind: "put",
      pod: desiredPod({ containers: [container("web", { image: own })], generation }),
      nowMs: 0,
      monotonicMs,
    });
    const same = webOf(reduce(state, put(name, 2)));
    assert.deepEqual([same.image.kind, same.saved], ["ready", webOf(state).saved]);
    const other = webOf(reduce(state, put("other", 2)));
    assert.deepEqual([other.image.kind, other.saved.backoff], ["unknown", undefined]);
    assert.equal(other.saved.run, webOf(state).saved.run);
  });

  it("does not use a pulled image if the pod has another image by then", () => {
    const state = after({ kind: "pullBegun", container: "web" });
    assert.equal(reduce(state, ready("registry.test/older:1")), state);
    assert.equal(webOf(reduce(state, ready(name))).image.kind, "ready");
  });

  it("doubles the pause between pulls that fail in a row", () => {
    let state = after();
    const pauses: number[] = [];
    for (let pull = 0; pull < 3; pull++) {
      state = reduce(state, { kind: "pullBegun", container: "web" });
      const reason = { reason: "ErrImagePull", message: "no answer" };
      state = reduce(state, { kind: "imageFailed", container: "web", name, nowMs: 0, ...reason });
      const { image: failed } = webOf(state);
      pauses.push(failed.kind === "failed" ? failed.retryAtMs : 0);
    }
    assert.deepEqual(pauses, [10_000, 20_000, 40_000]);
  });

  it("records the end of a run once, also while it reads the present runs", () => {
    const exit: ContainerExit = {
      id: "run-0",
      exitCode: 7,
      oomKilled: false,
      finishedAtMs: 0,
      lost: false,
    };
    const state = after(...started(0), { kind: "exited", exit });
    assert.equal(webOf(state).exited, exit);
    assert.equal(reduce(state, { kind: "exited", exit: { ...exit, exitCode: 8 } }), state);
    assert.equal(reduce(state, { kind: "exited", exit: { ...exit, id: "another" } }), state);
    const found = new Map([["web", { kind: "running", startedAtMs: 0 } as const]]);
    assert.equal(webOf(reduce(state, { kind: "takenOver", found })).exited, exit);
    const noted = reduce(state, ended(0, 5));
    assert.equal(reduce(noted, { kind: "exited", exit }), noted);
  });

  it("lets the exit code of a run count that an earlier agent was stopping, and that still runs", () => {
    const message = "Container web failed liveness probe, will be restarted";
    const stopping: PodChange = { kind: "stopBegun", container: "web", message, restarts: true };
    const state = after(...started(0), stopping);
    assert.equal(webOf(state).saved.run?.restarts, true);
    const found = new Map([["web", { kind: "running", startedAtMs: 0 } as const]]);
    const next = reduce(state, { kind: "takenOver", found });
    assert.equal(webOf(next).saved.run?.restarts, undefined);
    const exit = { id: "run-0", exitCode: 0, oomKilled: false, finishedAtMs: 0, lost: false };
    const ended = new Map([["web", { kind: "exited", exit } as const]]);
    const stopped = reduce(state, { kind: "takenOver", found: ended });
    assert.equal(webOf(stopped).saved.run?.restarts, true);
  });

  it("creates a container again after 10 s, however often that failed, and at once with a newer pod", () => {
    const [begun] = started(0);
    assert.ok(begun);
    const fails = (nowMs: number): PodChange[] => [
      begun,
      { kind: "createFailed", container: "web", reason: "R", message: "m", nowMs },
    ];
    const state = after(...fails(1000), ...fails(11_000), ...fails(21_000));
    assert.equal(webOf(state).retryAtMs, 31_000);
    const pod = desiredPod();
    const newer = reduce(state, { kind: "put", pod, nowMs: 22_000, monotonicMs: 22_000 });
    assert.equal(webOf(newer).retryAtMs, 0);
    const crashed = after(...started(0), ended(0, 1000), ...started(1, 1000), ended(1, 2000));
    const still = reduce(crashed, { kind: "put", pod, nowMs: 2000, monotonicMs: 2000 });
    assert.equal(webOf(still).retryAtMs, webOf(crashed).retryAtMs);
  });

  it("holds back a container that ends again and again, and has its runs removed", () => {
    const state = after(...started(0), ended(0, 1000), ...started(1, 1000), ended(1, 2000));
    const { retryAtMs, waiting, saved, isWatched } = webOf(state);
    assert.deepEqual([retryAtMs, waiting?.reason], [12_000, "CrashLoopBackOff"]);
    assert.match(waiting?.message ?? "", /^back-off 10s restarting failed container=web pod=pod_/);
    assert.deepEqual([saved.lastTerminated?.exitCode, saved.previousLogDirectory], [1, "/logs/0"]);
    assert.deepEqual([isWatched, saved.started, saved.ready], [false, false, false]);
    assert.deepEqual(state.leftovers, ["run-0", "run-1"]);
    assert.deepEqual(
      state.events.map(({ reason }) => reason),
      ["BackOff"],
    );
    const one = reduce(state, { kind: "discarded", runId: "run-0" });
    assert.deepEqual(one.leftovers, ["run-1"]);
  });

  it("holds back one that was stopped to run again only soon after the end before, as a kubelet does", () => {
    const first = [...started(0), restarting, ended(0, 1000)];
    assert.equal(webOf(after(...first)).saved.backoff, undefined);
    const second = [...first, ...started(1), restarting, ended(1, 2000)];
    assert.equal(webOf(after(...second)).waiting, undefined);
    // Less than 10 s have passed since the end before.
    const soon = webOf(after(...second, ...started(2), restarting, ended(2, 11_000)));
    assert.deepEqual([soon.retryAtMs, soon.waiting?.reason], [21_000, "CrashLoopBackOff"]);
    const later = webOf(after(...second, ...started(2), restarting, ended(2, 12_000)));
    assert.deepEqual([later.retryAtMs, later.waiting], [12_000, undefined]);
  });

  it("forgets the ends of a container that is given other resources", () => {
    const state = after(ready(name), ...started(0), ended(0, 1000), ...started(1), ended(1, 2000));
    const containers = [container("web", { memoryBytesLimit: 2 ** 26 })];
    const pod = desiredPod({ containers, generation: 2 });
    const next = webOf(reduce(state, { kind: "put", pod, nowMs: 3000, monotonicMs }));
    assert.deepEqual([next.saved.backoff, next.retryAtMs], [undefined, 0]);
    assert.equal(next.image.kind, "ready");
  });

  it("counts the ends of a container on, whose cell is too small for other resources", () => {
    const state = after(ready(name), ...started(0), ended(0, 1000), ...started(1), ended(1, 2000));
    const containers = [container("web", { memoryBytesRequest: 2 ** 26 })];
    const machine = { cpuMilli: 1000, memoryBytes: 2 ** 25 };
    const pod = desiredPod({ containers, machine, generation: 2 });
    const next = reduce(state, { kind: "put", pod, nowMs: 3000, monotonicMs });
    assert.equal(next.allocation.pending?.reason, "Infeasible");
    const { saved, retryAtMs } = webOf(state);
    assert.ok(saved.backoff);
    assert.deepEqual(
      [webOf(next).saved.backoff, webOf(next).retryAtMs],
      [saved.backoff, retryAtMs],
    );
  });

  it("does not wait with a container that must not run again", () => {
    const end: PodChange = { kind: "end", graceMs: 30_000, nowMs: 0 };
    const waiting = { reason: "RunContainerError", message: "no such file" };
    const state = after(end, ...started(0), {
      ...ended(0, 0),
      kind: "ended",
      waiting,
    } as PodChange);
    assert.equal(webOf(state).waiting, undefined);
    assert.equal(webOf(state).retryAtMs, 0);
  });

  it("does not count a process that ended before its start was reported as running", () => {
    const begun: PodChange = { kind: "runBegun", container: "web", run: run(0) };
    const state = after(begun, ended(0, 0), ...started(0).slice(1));
    assert.equal(webOf(state).saved.run?.exit?.exitCode, 1);
    assert.equal(webOf(state).isWatched, false);
  });

  it("shortens the pod's end and never puts it off", () => {
    const end = (graceMs: number): PodChange => ({ kind: "end", graceMs, nowMs: 1000 });
    assert.deepEqual(after(end(30_000), end(60_000)).end, { endMs: 31_000 });
    assert.deepEqual(after(end(30_000), end(0)).end, { endMs: 2000 });
    assert.deepEqual(after(end(0), end(30_000)).end, { endMs: 2000 });
  });

  it("keeps all events of a start of many containers", () => {
    const containers = Array.from({ length: 30 }, (_, n) => container(`c${n}`));
    const put = { kind: "put", pod: desiredPod({ containers }), nowMs: 0, monotonicMs } as const;
    const events = (message: string): readonly PodChange[] =>
      Array.from({ length: 120 }, () => {
        const event = { type: "Normal", reason: "R", message } as const;
        return { kind: "event", event, nowMs: 0 };
      });
    const keptOf = (message: string): number =>
      [put, ...events(message)].reduce<PodState>(reduce, noPod).events.length;
    assert.equal(keptOf("Started"), 120);
    assert.equal(keptOf("x".repeat(5000)), 100);
    assert.equal(after(...events("Started")).events.length, 100);
  });

  it("adds up the phases of the start", () => {
    const pulled = { ...ready(name), timingsMs: { unpack: 20 }, monotonicMs: 100 } as PodChange;
    const later = started(0).map((change) =>
      change.kind === "started" ? { ...change, monotonicMs: 150 } : change,
    );
    assert.deepEqual(after(pulled, ...later).timings.values, { pull: 80, unpack: 20, start: 50 });
  });
});
