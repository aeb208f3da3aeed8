import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { StatusWriter } from "./status-writer.ts";

type Patched = Readonly<Record<string, unknown>>;

let clock: ManualClock;
let stored: Pod;
/** Why the API server refuses a patch. Undefined if it accepts it. */
let verdict: (status: Patched) => Error | undefined;
/** The status of each patch, whether refused or not. */
let tried: Patched[];
let refusals: number;
let warnings: number;
let stop: AbortController;
/** Makes the watch deliver the stored pod to the most recent writer. */
let watch: () => void;

beforeEach(() => {
  clock = new ManualClock();
  stored = podWith({ status: {} });
  verdict = () => undefined;
  tried = [];
  refusals = 0;
  warnings = 0;
  stop = new AbortController();
});

function writer(): StatusWriter {
  return writerWith({
    patch: async (_path: string, { status = {} }: { readonly status?: Patched }) => {
      tried.push(status);
      if (tried.length > 200) await new Promise(() => {}); // enough to see that there is no pause
      const failure = verdict(status);
      if (failure) throw failure;
      return { ...stored, status: { ...stored.status, ...status } };
    },
  });
}

/** A writer that treats the API's responses as the newest state of the pod. */
function writerWith(client: object): StatusWriter {
  let known = stored;
  const subject = new StatusWriter({
    client: client as unknown as ApiClient, // all that a writer uses of it
    clock,
    logger: { ...silentLogger, warn: () => void warnings++ },
    pod: () => known,
    onAnswer: (pod) => (stored = known = pod),
    onRefused: () => void refusals++,
    observedGeneration: () => undefined,
    signal: stop.signal,
  });
  watch = () => {
    known = stored;
    subject.repair();
  };
  return subject;
}

/** An API server that checks the version of the pod in a patch. */
class VersionedServer {
  reads = 0;
  /** Whether a client may read single pods, beside list and watch. */
  isReadable = true;
  /** Patches are applied when it resolves. */
  #gate: Promise<void> | undefined;

  /** A writer of a separate process. */
  writer(): StatusWriter {
    return writerWith({
      get: async () => {
        this.reads++;
        if (!this.isReadable) throw new K8sError("K8S_FORBIDDEN", "no get", { httpStatus: 403 });
        return stored;
      },
      patch: async (_path: string, { metadata, status }: Pick<Pod, "metadata" | "status">) => {
        tried.push(status as Patched);
        await this.#gate;
        const failure = verdict(status as Patched);
        if (failure) throw failure;
        if (metadata.resourceVersion !== stored.metadata.resourceVersion)
          throw new K8sError("K8S_CONFLICT", "The pod has changed", { httpStatus: 409 });
        return this.change(status ?? {});
      },
    });
  }

  change(status: PodStatus, uid = stored.metadata.uid): Pod {
    const resourceVersion = String(Number(stored.metadata.resourceVersion) + 1);
    const metadata = { ...stored.metadata, uid, resourceVersion };
    stored = { ...stored, metadata, status: { ...stored.status, ...status } };
    return stored;
  }

  /** Delays patches that are sent from now on until the returned function is called. Later patches are not delayed. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gate = promise;
    return resolve;
  }

  pass(): void {
    this.#gate = undefined;
  }
}

function refusal(...fields: readonly string[]): K8sError {
  const causes = fields.map((field) => ({ field, message: "no" }));
  const answer = { httpStatus: 422, status: { kind: "Status", details: { causes } } };
  return new K8sError("K8S_INVALID", "Cannot PATCH: it is invalid", answer);
}

const away = new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });

const running: PodStatus = {
  phase: "Running",
  podIP: "192.0.2.1",
  conditions: [{ type: "Ready", status: "True" }],
  containerStatuses: [],
};
const main = { name: "main", image: "x", imageID: "", ready: false, restartCount: 3 };
const waits = {
  ...main,
  restartCount: 0,
  state: { waiting: { reason: "ContainerCreating" } },
};
const starting: PodStatus = {
  phase: "Pending",
  startTime: "2030-01-01T00:00:00Z",
  conditions: [
    { type: "Initialized", status: "True" },
    { type: "Ready", status: "False" },
  ],
  containerStatuses: [waits],
};
const failed: PodStatus = {
  phase: "Failed",
  reason: "Error",
  message: "It failed",
  containerStatuses: [
    { ...main, state: { terminated: { exitCode: 42, reason: "Error", containerID: "id" } } },
    { ...main, name: "second", state: { waiting: { reason: "PodInitializing" } } },
  ],
  conditions: [{ type: "Ready", status: "False", reason: "PodFailed" }],
};

describe("StatusWriter", () => {
  it("writes the other fields when the API server refuses one", async () => {
    stored = { ...stored, status: { ...running, containerStatuses: [main] } };
    verdict = (status) =>
      "containerStatuses" in status ? refusal("status.containerStatuses[0].state") : undefined;
    const status = { phase: "Pending", conditions: [{ type: "Ready", status: "False" }] };
    writer().write({ ...status, containerStatuses: [{ ...main, restartCount: 0 }] });
    await clock.advance(0);
    assert.deepEqual([tried.length, refusals], [2, 1]);
    assert.equal(stored.status?.phase, "Pending");
    assert.equal(stored.status.podIP, null);
    assert.equal(stored.status.conditions?.[0]?.status, "False");
    assert.deepEqual(stored.status.containerStatuses, [main]);
  });

  it("writes the essential part when a refusal names no field", async () => {
    verdict = (status) => ("hostIP" in status ? refusal() : undefined);
    writer().write({ ...running, hostIP: "not an address" });
    await clock.advance(0);
    assert.deepEqual([stored.status?.phase, stored.status?.podIP], ["Running", "192.0.2.1"]);
  });

  it("tries a refused status again as a whole, not more than once a minute", async () => {
    let isStrict = true;
    verdict = (status) => (isStrict && "hostIP" in status ? refusal("status.hostIP") : undefined);
    const subject = writer();
    subject.write({ phase: "Running", hostIP: "192.0.2.9" });
    for (let second = 0; second < 59; second++) {
      await clock.advance(1000);
      subject.repair();
    }
    assert.equal(tried.length, 2);
    isStrict = false;
    await clock.advance(1000);
    subject.repair();
    await clock.advance(0);
    assert.equal(stored.status?.hostIP, "192.0.2.9");
  });

  it("keeps writing a terminal phase, reduced to exit codes if necessary", async () => {
    verdict = (status) => {
      const [first, ...others] = (status["containerStatuses"] ?? []) as (typeof main)[];
      const isPlain = others.length === 0 && !JSON.stringify(first ?? {}).includes("containerID");
      return isPlain ? undefined : refusal("status.containerStatuses");
    };
    writer().write(failed);
    await clock.advance(0);
    assert.deepEqual(
      [stored.status?.phase, stored.status?.reason, stored.status?.message],
      ["Failed", "Error", "It failed"],
    );
    const [ended] = stored.status?.containerStatuses ?? [];
    assert.deepEqual(ended?.state, { terminated: { exitCode: 42, reason: "Error" } });
    assert.equal(ended.restartCount, 3);
  });

  it("repeats a terminal phase with pauses, even if its smallest form is refused", async () => {
    let isStrict = true;
    verdict = () => (isStrict ? refusal() : undefined);
    writer().write(failed);
    await clock.advance(0);
    const first = tried.length;
    assert.ok(first <= 4, `${first} writes without a pause`);
    assert.deepEqual(Object.keys(tried.at(-1) ?? {}), ["phase", "reason", "message"]);
    await clock.advance(600_000);
    assert.ok(tried.length > first && tried.length < 200, `${tried.length} writes in 10 minutes`);
    isStrict = false;
    await clock.advance(30_000);
    assert.equal(stored.status?.phase, "Failed");
    assert.equal(stored.status.containerStatuses?.length, 2);
  });

  it("cuts a message that makes a terminal status too large", async () => {
    const tooLarge = new K8sError("K8S_REQUEST_FAILED", "too large", {
      httpStatus: 413,
    });
    verdict = (status) => (JSON.stringify(status).length > 100_000 ? tooLarge : undefined);
    writer().write({ phase: "Failed", reason: "Error", message: "x".repeat(4_000_000) });
    await clock.advance(0);
    assert.equal(stored.status?.phase, "Failed");
    assert.equal(stored.status.message?.length, 1024);
  });

  it("does not report a patch that hit another pod of the same name", async () => {
    verdict = () => refusal("metadata.uid");
    writer().write(running);
    await clock.advance(60_000);
    assert.deepEqual([tried.length, refusals, warnings], [1, 0, 0]);
  });

  it("lets why a pod's containers wait wait for what follows, a second at most", async () => {
    const subject = writer();
    subject.write(starting);
    await clock.advance(999);
    subject.write({ ...starting, containerStatuses: [{ ...waits, imageID: "i" }] });
    assert.equal(tried.length, 0);
    await clock.advance(1);
    assert.equal(tried.length, 1);
    assert.equal(stored.status?.containerStatuses?.[0]?.imageID, "i");
    assert.equal(stored.status.startTime, starting.startTime);

    const quick = writer();
    tried = [];
    quick.write({ ...starting, message: "pulls" });
    await clock.advance(500);
    quick.write(running);
    await clock.advance(0);
    assert.deepEqual(
      tried.map(({ phase }) => phase),
      ["Running"],
    );
  });

  const more: Readonly<Record<string, PodStatus>> = {
    "an address that replaces another": { ...starting, podIP: "192.0.2.2" },
    "a reason of the pod": { ...starting, reason: "Rejected" },
    "an end": { ...starting, phase: "Failed" },
    "a container of which one has ended": {
      ...starting,
      containerStatuses: [{ ...waits, lastState: { terminated: { exitCode: 1 } } }],
    },
    "an init container that runs": {
      ...starting,
      initContainerStatuses: [{ ...waits, state: { running: {} } }],
    },
    "a condition that is true": {
      ...starting,
      conditions: [{ type: "DisruptionTarget", status: "True" }],
    },
  };
  for (const [what, status] of Object.entries(more))
    it(`writes ${what} at once, also after a detail`, async () => {
      const { podIP } = status;
      if (podIP !== undefined) stored = { ...stored, status: { podIP: "192.0.2.1" } };
      const subject = writer();
      subject.write({ ...starting, ...(podIP !== undefined && { podIP: "192.0.2.1" }) });
      await clock.advance(10);
      subject.write(status);
      await clock.advance(0);
      assert.equal(tried.length, 1);
    });

  for (const [ms, phases] of [
    [199, ["Running"]],
    [200, ["Pending", "Running"]],
  ] as const)
    it(`lets an address wait 200 ms for containers that run, here ${ms} ms`, async () => {
      const subject = writer();
      const ready = { type: "PodReadyToStartContainers", status: "True" };
      subject.write(starting);
      await clock.advance(900);
      subject.write({ ...starting, podIP: "192.0.2.1", conditions: [ready] });
      await clock.advance(ms);
      subject.write(running);
      await clock.advance(0);
      assert.deepEqual(
        tried.map(({ phase }) => phase),
        phases,
      );
      assert.equal(stored.status?.podIP, "192.0.2.1");
    });

  it("keeps the first start time, in the API or not yet there, whatever later statuses contain", async () => {
    const first = "2030-01-01T00:00:00Z";
    const later = "2030-01-01T00:05:00Z";
    verdict = () => away;
    const subject = writer();
    subject.write({ ...starting, startTime: first });
    await clock.advance(10_000);
    subject.write({ ...starting, startTime: later });
    verdict = () => undefined;
    await clock.advance(60_000);
    assert.equal(stored.status?.startTime, first);
    subject.write({ ...running, startTime: later });
    await clock.advance(60_000);
    assert.deepEqual([stored.status?.phase, stored.status?.startTime], ["Running", first]);
  });

  it("does not replace a terminal status that the API does not have yet", async () => {
    verdict = () => away;
    const subject = writer();
    subject.write(failed);
    await clock.advance(1000);
    subject.write(running);
    verdict = () => undefined;
    await clock.advance(60_000);
    assert.equal(stored.status?.phase, "Failed");
  });

  it("writes a condition of its own at once, also after a detail", async () => {
    const subject = writer();
    subject.write(starting);
    await clock.advance(10);
    subject.setCondition({ type: "kip.elotl.co/Resolved", status: "False" });
    await clock.advance(0);
    assert.equal(tried.length, 1);
  });

  it("writes a condition whose text alone changes every ten seconds at most", async () => {
    const subject = writer();
    const note = (message: string): void =>
      subject.setCondition({ type: "Mine", status: "False", reason: "R", message });
    for (let count = 0; count < 100; count++) {
      note(`request ${count}`);
      await clock.advance(100);
    }
    assert.equal(tried.length, 1);
    subject.repair();
    await clock.advance(0);
    assert.equal(stored.status?.conditions?.[0]?.message, "request 99");
    subject.setCondition({ type: "Mine", status: "True" });
    await clock.advance(0);
    assert.equal(stored.status.conditions[0]?.status, "True");
  });

  it("changes nothing that another process wrote and that it has not seen", async () => {
    const server = new VersionedServer();
    const [killed, next] = [server.writer(), server.writer()];
    const arrive = server.hold();
    killed.write(running);
    await clock.advance(0);
    stop = new AbortController(); // of the next process
    server.pass();
    next.write(failed);
    await clock.advance(0);
    assert.equal(stored.status?.phase, "Failed");
    arrive();
    await clock.advance(60_000);
    assert.deepEqual([stored.status.phase, stored.status.podIP], ["Failed", undefined]);
    assert.equal(tried.length, 2);
  });

  it("writes what still differs after a conflict when the watch has brought the pod", async () => {
    const server = new VersionedServer();
    const subject = server.writer();
    const arrive = server.hold();
    subject.write({ phase: "Running", podIP: "192.0.2.1" });
    await clock.advance(0);
    server.change({ phase: "Running" });
    watch();
    arrive(); // the version is known before the conflict
    await clock.advance(0);
    assert.deepEqual([tried.length, stored.status?.podIP], [2, "192.0.2.1"]);
    server.change({ message: "by another client" });
    subject.write({ phase: "Running", podIP: "192.0.2.2" });
    await clock.advance(999);
    assert.deepEqual([tried.length, server.reads], [3, 0]);
    watch(); // after it
    await clock.advance(0);
    assert.deepEqual([tried.length, stored.status?.podIP], [4, "192.0.2.2"]);
    assert.deepEqual([server.reads, warnings], [0, 0]);
  });

  it("follows the watch alone where it may not read pods", async () => {
    const server = new VersionedServer();
    server.isReadable = false;
    const subject = server.writer();
    server.change({});
    subject.write(running);
    await clock.advance(20_000);
    assert.deepEqual([tried.length, server.reads, warnings], [1, 1, 0]);
    watch();
    await clock.advance(0);
    assert.equal(stored.status?.phase, "Running");
  });

  it("ends with the pod where it may not read pods", async () => {
    const server = new VersionedServer();
    server.isReadable = false;
    const subject = server.writer();
    server.change({}, "another");
    subject.write(failed);
    await clock.advance(20_000);
    subject.objectDeleted();
    await subject.idle();
    subject.write(failed);
    await clock.advance(60_000);
    assert.deepEqual([tried.length, server.reads, warnings], [1, 1, 0]);
  });

  it("reads the pod after a conflict if the watch is late, and writes what still differs", async () => {
    const server = new VersionedServer();
    const subject = server.writer();
    const startTime = "2030-01-01T00:00:00Z";
    server.change({ phase: "Running", startTime });
    subject.write({ phase: "Running", podIP: "192.0.2.1", startTime: "2030-01-01T00:00:07Z" });
    await clock.advance(1000);
    const podIPs = [{ ip: "192.0.2.1" }, { $patch: "replace" }];
    assert.deepEqual(tried, [
      { phase: "Running", podIP: "192.0.2.1", podIPs, startTime: "2030-01-01T00:00:07Z" },
      { podIP: "192.0.2.1", podIPs },
    ]);
    assert.deepEqual([server.reads, warnings], [1, 0]);
    subject.write({ phase: "Running", podIP: "192.0.2.2" });
    await clock.advance(0);
    assert.deepEqual([tried.length, server.reads], [3, 1], "a write is one request again");
  });

  it("writes a status after many failures and a conflict", async () => {
    const server = new VersionedServer();
    verdict = () => away;
    server.writer().write(running);
    await clock.advance(20_000);
    assert.ok(tried.length > 4, `${tried.length} writes`);
    server.change({ message: "another client was first" });
    verdict = () => undefined;
    await clock.advance(60_000);
    assert.equal(stored.status?.phase, "Running");
  });

  it("leaves a status to the next sweep after four conflicts in a row", async () => {
    const server = new VersionedServer();
    verdict = () => void server.change({});
    server.writer().write(running);
    await clock.advance(600_000);
    assert.deepEqual([tried.length, stored.status?.phase], [4, undefined]);
  });

  it("repeats a terminal phase however many conflicts there are", async () => {
    const server = new VersionedServer();
    const subject = server.writer();
    verdict = () => void server.change({});
    subject.write(failed);
    let isIdle = false;
    void subject.idle().then(() => (isIdle = true));
    await clock.advance(60_000);
    assert.ok(tried.length > 5 && tried.length < 20, `${tried.length} writes in a minute`);
    assert.deepEqual([isIdle, stored.status?.phase], [false, undefined]);
    verdict = () => undefined;
    await clock.advance(60_000);
    assert.deepEqual([isIdle, stored.status?.phase], [true, "Failed"]);
  });

  it("writes nothing to a pod that has got the name meanwhile", async () => {
    const server = new VersionedServer();
    const subject = server.writer();
    server.change({}, "another");
    subject.write(running);
    await clock.advance(60_000);
    assert.deepEqual([tried.length, server.reads, warnings], [1, 1, 0]);
  });

  it("flushes a terminal phase without waiting for the watch", async () => {
    const server = new VersionedServer();
    const subject = server.writer();
    server.change({});
    subject.write(failed);
    await clock.advance(0);
    await subject.flushEnd();
    assert.deepEqual([stored.status?.phase, server.reads], ["Failed", 1]);
  });

  it("flushes a terminal phase without waiting for the end of a pause", async () => {
    verdict = () => away;
    const subject = writer();
    subject.write(failed);
    await clock.advance(20_000);
    verdict = () => undefined;
    await subject.flushEnd();
    assert.equal(stored.status?.phase, "Failed");
  });
});
