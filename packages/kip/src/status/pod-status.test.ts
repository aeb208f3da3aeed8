import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodePodReport, type PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { ContainerStatus, Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import type { CellState } from "../state/cell-state.ts";
import type { Cell, PodEnd } from "../state/cell.ts";
import { cellStateWith, StateUnderTest, type CellStateParts } from "../testing/index.ts";
import { cellReadyCondition, podStatus } from "./pod-status.ts";

const now = Date.parse("2026-01-01T01:00:00Z");
const pod = {
  metadata: { name: "web", uid: "p" },
  spec: {
    containers: [{ name: "main", image: "i" }],
    readinessGates: [{ conditionType: "x/gate" }],
  },
  status: {
    phase: "Pending",
    startTime: "2026-01-01T00:00:00Z",
    conditions: [
      { type: "x/gate", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
      { type: "Ready", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
    ],
  },
} as unknown as Pod; // the fields that are read

function report(phase: PodReport["phase"]): PodReport {
  return {
    podUid: "p",
    generation: 1,
    phase,
    startTime: "2026-01-01T00:30:00Z",
    initContainers: [],
    containers: [
      {
        name: "main",
        running: { startedAt: "now" },
        ready: true,
        started: true,
        restartCount: 0,
        image: "i",
      },
    ],
    ephemeralContainers: [],
    events: [],
    timingsMs: {},
  };
}

describe("podStatus()", () => {
  it("writes no conditions of other clients, but evaluates their readiness gates", () => {
    const status = podStatus(cellStateWith({ agent: { report: report("Running") } }), pod, now);
    const types = status?.conditions?.map(({ type }) => type).sort();
    assert.deepEqual(types, [
      "ContainersReady",
      "Initialized",
      "PodReadyToStartContainers",
      "PodScheduled",
      "Ready",
      "kip.elotl.co/CellReady",
    ]);
    assert.equal(status?.conditions?.find(({ type }) => type === "Ready")?.status, "True");
    assert.equal(status?.startTime, "2026-01-01T00:00:00Z");
  });

  it("says why a pod was ended when all of it has ended, as a kubelet does", () => {
    const why = { reason: "DeadlineExceeded", message: "too long" };
    const shown = (phase: PodReport["phase"], end: CellStateParts["end"] = {}) => {
      const parts = { agent: { report: { ...report(phase), ...why } }, end };
      const status = podStatus(cellStateWith(parts), pod, now);
      return [status?.phase, status?.reason, status?.message];
    };
    assert.deepEqual(shown("Running"), ["Running", undefined, undefined]);
    const end = { isPodFinished: true, podEnd: { phase: "Failed" as const, ...why } };
    assert.deepEqual(shown("Failed", end), ["Failed", "DeadlineExceeded", "too long"]);
  });

  it("does not take why the pod waited once for why it failed on its cell", () => {
    const reason = { reason: "PodTooLarge", message: "Cannot give the pod to a cell" };
    const parts = { agent: { report: report("Failed") }, wait: { reason } };
    const removed = { pod: { wanted: { kind: "remove", graceSeconds: 0 } } } as const;
    const status = podStatus(cellStateWith({ ...parts, ...removed }), pod, now);
    assert.deepEqual(
      [status?.phase, status?.reason, status?.message],
      ["Failed", undefined, undefined],
    );
  });

  it("is ready to start containers while a cell has namespaces and network for the pod", () => {
    const readyToStart = (parts: CellStateParts) =>
      podStatus(cellStateWith(parts), pod, now)?.conditions?.find(
        ({ type }) => type === "PodReadyToStartContainers",
      )?.status;
    const reported = (given: PodReport) => ({ agent: { report: given } });
    assert.equal(readyToStart({}), "False");
    assert.equal(readyToStart(reported(report("Pending"))), "True");
    const unprepared = { ...report("Pending"), isUnprepared: true };
    assert.equal(readyToStart(reported(unprepared)), "False");
    assert.equal(readyToStart(reported(report("Running"))), "True");
    const end = { isPodFinished: true, podEnd: { phase: "Succeeded" as const } };
    assert.equal(readyToStart({ ...reported(report("Succeeded")), end }), "False");
  });

  it("shares 12 KiB among the termination messages of all containers, as a kubelet does", () => {
    const names = Array.from({ length: 12 }, (_, index) => `c${index}`);
    const message = "x".repeat(4096);
    const end = { exitCode: 1, reason: "Error", message, finishedAt: "2026-01-01T00:50:00Z" };
    const given = report("Running");
    const [one] = given.containers;
    assert.ok(one);
    const containers = names.map((name) => ({
      ...one,
      name,
      running: undefined,
      terminated: end,
      lastTerminated: end,
    }));
    const spec = { ...pod.spec, containers: names.map((name) => ({ name, image: "i" })) };
    const state = cellStateWith({ agent: { report: { ...given, containers } } });
    const { containerStatuses = [] } = podStatus(state, { ...pod, spec }, now) ?? {};
    const lengths = containerStatuses.map(({ state: current, lastState }) => [
      current?.terminated?.message?.length,
      lastState?.terminated?.message?.length,
    ]);
    assert.deepEqual([...new Set(lengths.flat())], [1024]);
  });

  it("has the conditions of a resize while there is one, and none after the pod's end", () => {
    const resize = {
      resizePending: { reason: "Infeasible", message: "too much", podGeneration: 3 },
      resizeInProgress: { podGeneration: 2 },
    };
    const resizes = (end: NonNullable<CellStateParts["end"]>) => {
      const state = cellStateWith({ agent: { report: { ...report("Running"), ...resize } }, end });
      const { conditions = [] } = podStatus(state, pod, now) ?? {};
      return conditions
        .filter(({ type }) => type.startsWith("PodResize"))
        .map(({ lastTransitionTime: _time, ...condition }) => condition);
    };
    assert.deepEqual(resizes({}), [
      {
        type: "PodResizePending",
        status: "True",
        reason: "Infeasible",
        message: "too much",
        observedGeneration: 3,
      },
      { type: "PodResizeInProgress", status: "True", observedGeneration: 2 },
    ]);
    assert.deepEqual(resizes({ isPodFinished: true, podEnd: { phase: "Succeeded" } }), []);
  });

  it("keeps the times that were published last, not those of the applied pod", () => {
    const published = [
      { type: "Ready", status: "True" as const, lastTransitionTime: "2026-01-01T00:50:00Z" },
    ];
    const seen = cellStateWith({
      agent: { report: report("Running") },
      status: { conditions: published },
    });
    const ready = podStatus(seen, pod, now)?.conditions?.find(({ type }) => type === "Ready");
    assert.equal(ready?.lastTransitionTime, "2026-01-01T00:50:00Z");
  });

  it("marks a pod whose cell is taken back, until it has another", () => {
    const disruption = (seen: CellState) =>
      podStatus(seen, pod, now)?.conditions?.find(({ type }) => type === "DisruptionTarget");
    const endsAt = "2026-01-01T01:02:00Z";
    const taken = cellStateWith({
      agent: { report: report("Running") },
      machine: { interruption: { instanceId: "i-1", endsAt, endsAtMs: 0, noticeMs: 0 } },
    });
    const published = disruption(taken);
    assert.ok(published);
    assert.equal(published.status, "True");
    assert.match(published.message ?? "", /"i-1".* 2026-01-01T01:02:00Z/);
    const later = disruption(
      cellStateWith({ agent: { report: report("Running") }, status: { conditions: [published] } }),
    );
    assert.equal(later?.status, "False");
    const byScheduler = { ...published, reason: "PreemptionByScheduler" };
    assert.equal(
      disruption(
        cellStateWith({
          agent: { report: report("Running") },
          status: { conditions: [byScheduler] },
        }),
      ),
      undefined,
    );
  });

  it("CVE-2020-8562, CVE-2022-3294: has the addresses that the cloud reported, whatever the agent says", () => {
    const own = { podIp: "10.0.0.7", managementIp: "10.0.0.6" };
    const lie = {
      podIP: "127.0.0.1",
      podIp: "127.0.0.1",
      hostIP: "10.96.0.1",
      managementIp: "::1",
    };
    const lying = decodePodReport({ ...report("Running"), ...lie, containers: [] }, "");
    const instance = own as Instance; // the fields that are read
    for (const [hostNetwork, ip] of [
      [false, own.podIp],
      [true, own.managementIp],
    ] as const) {
      const seen = cellStateWith({ agent: { report: lying }, machine: { instance } });
      const status = podStatus(seen, { ...pod, spec: { ...pod.spec, hostNetwork } }, now);
      assert.deepEqual(
        [status?.podIP, status?.podIPs, status?.hostIP],
        [ip, [{ ip }], own.managementIp],
      );
    }
  });

  it("has the addresses of both families where the cloud gives them", () => {
    const gateway = { address: "fd6b::2", mac: "02:6b:69:70:00:02" };
    const ipv6 = { managementIp: "fd6b::6", podIp: "fd6b::7", gateway };
    const instance = { podIp: "10.0.0.7", managementIp: "10.0.0.6", ipv6 } as Instance; // the fields that are read
    const running = decodePodReport({ ...report("Running"), containers: [] }, "");
    const seen = cellStateWith({ agent: { report: running }, machine: { instance } });
    for (const [hostNetwork, ips] of [
      [false, ["10.0.0.7", "fd6b::7"]],
      [true, ["10.0.0.6", "fd6b::6"]],
    ] as const) {
      const status = podStatus(seen, { ...pod, spec: { ...pod.spec, hostNetwork } }, now);
      assert.deepEqual(
        [status?.podIP, status?.podIPs?.map(({ ip }) => ip), status?.hostIPs],
        [ips[0], ips, [{ ip: "10.0.0.6" }, { ip: "fd6b::6" }]],
      );
    }
  });

  const silent: readonly (readonly [string, CellStateParts])[] = [
    [
      "a claimed cell that has not reported since a restart",
      { cell: { status: { phase: "Claimed" } } },
    ],
    ["a cell that was being drained", { cell: { status: { phase: "Draining" } } }],
    ["a finished pod whose cell is forgotten", { end: { isPodFinished: true } }],
    ["containers that end because their Cell was deleted", { agent: { report: report("Failed") } }],
  ];
  for (const [name, change] of silent)
    it(`publishes no status of ${name}`, () =>
      assert.equal(podStatus(cellStateWith(change), pod, now), undefined));

  const ran = (policy: string, change: object = {}): Pod =>
    ({
      metadata: pod.metadata,
      spec: {
        restartPolicy: policy,
        initContainers: [{ name: "init" }],
        containers: [{ name: "done" }, { name: "main" }],
      },
      status: {
        phase: "Running",
        podIP: "10.0.0.1",
        initContainerStatuses: [
          { name: "init", restartCount: 0, ready: true, state: { terminated: { exitCode: 0 } } },
        ],
        containerStatuses: [
          { name: "done", restartCount: 0, state: { terminated: { exitCode: 0 } } },
          { name: "main", restartCount: 3, ready: true, state: { running: { startedAt: "now" } } },
        ],
        ...change,
      },
    }) as unknown as Pod; // the fields that are read
  const states = (list: readonly ContainerStatus[] | undefined) =>
    list?.map(({ name, state, restartCount, lastState }) => [
      name,
      Object.keys(state ?? {})[0],
      restartCount,
      lastState?.terminated?.reason,
    ]);
  const condition = (status: PodStatus | undefined, wanted: string) =>
    status?.conditions?.find(({ type }) => type === wanted)?.status;

  it("between two cells: keeps what has completed, counts on, and has neither address nor readiness", () => {
    const status = podStatus(cellStateWith({ history: { attempt: 1 } }), ran("OnFailure"), now);
    assert.deepEqual(states(status?.initContainerStatuses), [["init", "terminated", 0, undefined]]);
    assert.deepEqual(states(status?.containerStatuses), [
      ["done", "terminated", 0, undefined],
      ["main", "waiting", 4, "ContainerStatusUnknown"],
    ]);
    assert.deepEqual([status?.phase, status?.podIP], ["Running", undefined]);
    assert.deepEqual(
      [condition(status, "Ready"), condition(status, "Initialized")],
      ["False", "True"],
    );
  });

  it("between two cells: counts a restart that waits on the lost cell, and none that waited for it", () => {
    const waits = (containerID?: string) => {
      const [reason, started] = ["ContainerCreating", { terminated: { exitCode: 1 } }];
      const state = { waiting: { reason } };
      const main = { name: "main", restartCount: 3, state, lastState: started, containerID };
      const all = ran("Always", { containerStatuses: [main] });
      return states(podStatus(cellStateWith(), all, now)?.containerStatuses)?.[1]?.[2];
    };
    assert.deepEqual([waits("crun://id"), waits()], [4, 3]);
  });

  it("between two cells: does not change when it is computed again", () => {
    const first = podStatus(cellStateWith(), ran("OnFailure"), now);
    assert.deepEqual(podStatus(cellStateWith({ status: first }), ran("OnFailure"), now), first);
  });

  it("between two cells: has all containers of restartPolicy Always run again", () => {
    const status = podStatus(cellStateWith(), ran("Always"), now);
    assert.deepEqual(states(status?.initContainerStatuses), [["init", "waiting", 1, undefined]]);
    assert.deepEqual(
      states(status?.containerStatuses)?.map(([, state]) => state),
      ["waiting", "waiting"],
    );
  });

  it("has no address and no readiness as soon as the cell's machine is being ended", () => {
    for (const change of [
      { cell: { status: { phase: "Terminating", startMs: {} } } } as const,
      { machine: { state: "gone" }, cell: { status: { phase: "Claimed" } } } as const,
    ]) {
      const instance = { podIp: "10.0.0.1" } as Instance; // the fields that are read
      const seen = cellStateWith({
        agent: { report: report("Running") },
        pod: { object: pod },
        ...change,
        machine: { instance, ...change.machine },
      });
      const status = podStatus(seen, pod, now);
      assert.deepEqual([status?.podIP, condition(status, "Ready")], [undefined, "False"]);
    }
  });

  it("does not show a container that its lost cell ran when the pod is removed", () => {
    const clock = { now: () => now, monotonic: () => 0 };
    const cell = { metadata: { uid: "c" }, spec: { podRef: {} } } as unknown as Cell; // the fields that are read
    const seen = new StateUnderTest(
      cellStateWith({
        pod: { object: pod },
        cell: { object: cell, status: { phase: "Claimed" } },
        machine: { state: "running" },
      }),
      clock,
    );
    seen.apply({ kind: "reported", report: report("Running") });
    seen.apply({ kind: "instanceEnded", token: "c" });
    seen.apply({ kind: "removed", graceSeconds: 30 });
    seen.apply({ kind: "agentLost" });
    const { status } = seen.state;
    assert.deepEqual(states(status?.containerStatuses), [
      ["main", "waiting", 1, "ContainerStatusUnknown"],
    ]);
    assert.equal(condition(status, "Ready"), "False");
  });

  it("changes nothing of a pod that may not run again before its end is written", () => {
    const never = { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } } as Pod;
    const status = { phase: "Claimed" } as const;
    const seen = cellStateWith({
      agent: { report: report("Running") },
      pod: { object: never },
      machine: { state: "gone" },
      cell: { status },
    });
    const shown = podStatus(seen, never, now)?.containerStatuses;
    assert.deepEqual(states(shown), [["main", "running", 0, undefined]]);
  });

  it("on the next cell: goes on with counts, last states and completed containers", () => {
    const published = podStatus(cellStateWith(), ran("OnFailure"), now);
    const waiting = { waiting: { reason: "PodInitializing" } };
    const base = { restartCount: 0, image: "i", ready: false, started: false };
    const starting: PodReport = {
      ...report("Pending"),
      initContainers: [{ ...base, name: "init", running: { startedAt: "now" } }],
      containers: [{ ...base, name: "main", ...waiting }],
    };
    const seen = cellStateWith({
      status: published,
      agent: { report: starting },
      containers: {
        restartCounts: { init: 0, done: 0, main: 4 },
        ended: { done: { exitCode: 0 } },
      },
    });
    const status = podStatus(seen, ran("OnFailure"), now);
    assert.equal(status?.phase, "Running");
    assert.deepEqual(states(status.initContainerStatuses), [["init", "terminated", 0, undefined]]);
    assert.deepEqual(states(status.containerStatuses), [
      ["done", "terminated", 0, undefined],
      ["main", "waiting", 4, "ContainerStatusUnknown"],
    ]);
  });

  it("on the next cell: keeps a completed container whose end the API never got", () => {
    const seen = cellStateWith({
      agent: { report: { ...report("Running"), containers: [] } },
      containers: { ended: { main: { exitCode: 0, reason: "Completed" } } },
    });
    const [main] = podStatus(seen, { ...pod, status: {} }, now)?.containerStatuses ?? [];
    assert.equal(main?.state?.terminated?.reason, "Completed");
  });

  it("has the end that the Cell has, before its agent answers and after it is gone", () => {
    const containerStatuses = [
      { name: "main", restartCount: 2, state: { terminated: { exitCode: 0 } } },
    ] as unknown as ContainerStatus[];
    const end = { phase: "Succeeded", containerStatuses } as const;
    for (const phase of ["Claimed", "Terminating"] as const) {
      const seen = cellStateWith({
        end: { podEnd: end, isPodFinished: true },
        cell: { status: { phase } },
      });
      const status = podStatus(seen, ran("OnFailure"), now);
      assert.deepEqual([status?.phase, status?.podIP], ["Succeeded", "10.0.0.1"]);
      assert.deepEqual(status?.containerStatuses, containerStatuses);
      assert.equal(condition(status, cellReadyCondition), undefined);
    }
  });

  it("says in the kubelet's words that containers of a pod that has ended without a cell cannot be found", () => {
    const seen = cellStateWith({ end: { podEnd: { phase: "Failed" }, isPodFinished: true } });
    const { containerStatuses = [] } = podStatus(seen, ran("Never"), now) ?? {};
    const main = containerStatuses.find(({ name }) => name === "main")?.state?.terminated;
    assert.deepEqual(
      [main?.reason, main?.message],
      ["ContainerStatusUnknown", "The container could not be located when the pod was terminated"],
    );
  });

  it("says of a pod that failed with its cell that it was disrupted, so that a Job may not count it", () => {
    const lost = { phase: "Failed", reason: "CellLost", message: "It is gone" } as const;
    const failed = (podEnd: PodEnd, conditions: readonly PodCondition[] = []) => {
      const seen = cellStateWith({ end: { podEnd, isPodFinished: true } });
      const status = podStatus(seen, { ...ran("Never"), status: { conditions } }, now);
      const found = status?.conditions?.find(({ type }) => type === "DisruptionTarget");
      return [status?.reason, found?.status, found?.reason, found?.message];
    };
    assert.deepEqual(failed(lost), ["CellLost", "True", "TerminationByKubelet", "It is gone"]);
    const evicted = { type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI" };
    assert.deepEqual(failed(lost, [evicted]).slice(1), [undefined, undefined, undefined]);
    const reverted = { ...evicted, status: "False" };
    assert.equal(failed(lost, [reverted])[1], "True");
    assert.equal(failed({ phase: "Failed" })[1], undefined, "it failed by itself");
  });

  it("fails a pod that may not run again", () => {
    const waitReason = { reason: "CellLost", message: "The machine of this pod is gone" };
    const status = podStatus(
      cellStateWith({ end: { isPodFinished: true }, wait: { reason: waitReason } }),
      pod,
      now,
    );
    assert.deepEqual([status?.phase, status?.reason], ["Failed", "CellLost"]);
  });

  it("takes time in proportion to the number of containers, in a cell and between two", () => {
    const cost = (count: number, hasReport: boolean): number => {
      const names = Array.from({ length: count }, (_each, index) => ({ name: `c${index}` }));
      const spec = { restartPolicy: "OnFailure", containers: names, initContainers: names };
      const containerStatuses = names.map((each) => ({ ...each, restartCount: 1 }));
      const large = { ...pod, spec, status: { containerStatuses } } as unknown as Pod;
      const [running] = report("Running").containers;
      const containers = names.flatMap((each) => (running ? [{ ...running, ...each }] : []));
      const seen = cellStateWith(
        hasReport ? { agent: { report: { ...report("Running"), containers } } } : {},
      );
      const before = process.cpuUsage();
      podStatus(seen, large, now);
      const { user, system } = process.cpuUsage(before);
      return Math.max(user + system, 1000);
    };
    for (const hasReport of [true, false]) {
      cost(1000, hasReport); // to compile the code
      const [small, large] = [cost(1000, hasReport), cost(10_000, hasReport)];
      assert.ok(large < 30 * small, `${large} µs for 10,000, ${small} µs for 1,000`);
    }
  });
});
