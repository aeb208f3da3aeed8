import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { maxBodyBytes, type AgentClient, type DesiredPod, type PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { temporaryFolder } from "@kip/testing";
import { DocumentPlaces } from "../../dispatch/document-places.ts";
import { ProviderError } from "../../errors.ts";
import { cellStateWith, StateUnderTest, type CellStateParts } from "../../testing/index.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import { dispatch, lookForProfiles } from "./dispatch-pod.ts";
import { deleteCell } from "./end-cell.ts";
import type { CellTools } from "./step-context.ts";

const now = Date.parse("2026-01-01T01:00:00Z");

/** A pod whose cell responds, and the requests of its steps to the API and the agent. */
function start(change: CellStateParts = {}, podChange: Partial<Pod> = {}) {
  const pod: Pod = {
    ...podWith({
      metadata: { uid: "p" },
      spec: { activeDeadlineSeconds: 60 },
      status: { startTime: "2026-01-01T00:59:50Z" },
    }),
    ...podChange,
  };
  const written: CellStatus[] = [];
  const sent: DesiredPod[] = [];
  const problems: string[] = [];
  let failures = 0;
  const agent = {
    putPod: async (document: DesiredPod): Promise<number | undefined> => {
      sent.push(document);
      return document.generation;
    },
  };
  const object = { metadata: { name: "c" }, spec: { podRef: { uid: "p" }, attempt: 0 } };
  const maps = { env: new Map(), lateEnv: new Map(), files: new Map() };
  const state = cellStateWith({
    ...change,
    cell: { object: object as unknown as Cell, status: { phase: "Ready" }, ...change.cell }, // the fields that are read
    pod: { resolved: { pod, ...maps, pullSecrets: [] }, object: pod },
    machine: { instance: { podIp: "10.0.0.2" } as Instance, ...change.machine }, // the fields that are read
    agent: { client: agent as unknown as AgentClient, ...change.agent }, // the methods that are called
  });
  const clock = { now: () => now, monotonic: () => 0 };
  const cell = new StateUnderTest(state, clock);
  const tools = {
    clock,
    settings: () => ({ registries: [], seccompProfileRoot: "/nowhere" }),
    chooser: {
      sizeOf: async () => ({ cpu: "1500m", memory: "1Gi" }),
      extendedResourcesOf: () => new Map([["example.com/card", 2]]),
    },
    dns: async () => ({
      clusterDns: [],
      clusterDomain: "cluster.local",
      hostNameservers: [],
      hostSearchDomains: [],
    }),
    onEvent: () => {},
    onProblem: (podUid: string, reason: string) => problems.push(`${podUid} ${reason}`),
    store: { remove: async () => {} },
    logger: silentLogger,
    documents: new DocumentPlaces(),
    statuses: {
      note: (_cell: Cell, status: CellStatus) => void written.push(status),
      noteTransient: () => {},
      forget: () => {},
      write: async (_cell: Cell, status: CellStatus) => {
        if (failures-- > 0) throw new Error("the API does not answer");
        written.push(status);
      },
    },
  } as unknown as CellTools; // the parts that the step uses
  const failWrites = (count: number): void => void (failures = count);
  const send = async (): Promise<void> => await cell.run((context) => dispatch(tools, context));
  return { tools, cell, agent, written, sent, problems, failWrites, send };
}

describe("dispatch()", () => {
  it("has a pod's packets to the internet leave with the address of a cell that has a public one", async () => {
    const machine = (publicIp?: string) => ({
      machine: { instance: { podIp: "10.0.0.2", publicIp } as Instance }, // the fields that are read
    });
    const network = { nodeAddresses: [], serviceRanges: ["172.20.0.0/16"] };
    const facts = { nameservers: [], searchDomains: [], cidrs: [], directRanges: ["10.0.0.0/8"] };
    const sentBy = async (change: CellStateParts, of = podWith({ metadata: { uid: "p" } })) => {
      const { send, sent, tools } = start(change, of);
      Object.assign(tools, {
        network: { settings: async () => network },
        networkFacts: { get: async () => facts },
      });
      await send();
      return sent[0]?.directRanges;
    };
    assert.deepEqual(await sentBy(machine("192.0.2.1")), ["10.0.0.0/8", "172.20.0.0/16"]);
    assert.equal(await sentBy(machine()), undefined);
    const ofHost = podWith({ metadata: { uid: "p" }, spec: { hostNetwork: true } });
    assert.equal(await sentBy(machine("192.0.2.1"), ofHost), undefined);
  });

  it("writes Claimed before it sends the pod, also after a failed attempt", async () => {
    const { send, cell, written, sent, failWrites } = start();
    failWrites(1);
    await assert.rejects(send());
    assert.deepEqual([sent.length, cell.state.cell.status.phase], [0, "Ready"]);
    await send();
    assert.deepEqual([sent.length, cell.state.cell.status.phase], [1, "Claimed"]);
    assert.deepEqual(
      written.map(({ phase }) => phase),
      ["Claimed"],
    );
  });

  it("sends the pod when there is a place for its document, which is then accounted for", async () => {
    const { tools, cell, sent, send } = start();
    const documents = new DocumentPlaces({ small: 1, large: 1 });
    Object.assign(tools, { documents });
    const { promise: read, resolve: free } = Promise.withResolvers<void>();
    const other = { make: () => ({ document: "", bytes: 1 }), use: async () => await read };
    const { signal } = new AbortController();
    const before = documents.send({ namespace: "other", bytes: 1 }, other, signal);
    const sending = send();
    await setImmediate();
    await setImmediate();
    assert.deepEqual([sent.length, cell.state.agent.documentsPaidAt], [0, undefined]);
    free();
    await Promise.all([before, sending]);
    assert.equal(sent.length, 1);
    assert.equal(cell.state.agent.sentGeneration, sent[0]?.generation);
    assert.ok((cell.state.agent.documentsPaidAt ?? 0) > 0);
  });

  it("sends the version that the pod has when there is a place for its document", async () => {
    const { tools, cell, sent, send } = start();
    const documents = new DocumentPlaces({ small: 1, large: 1 });
    const looked: (string | undefined)[] = [];
    const sizeOf = async ({ spec }: Pod) => {
      looked.push(spec.hostname);
      return { cpu: "1", memory: "1Gi" };
    };
    Object.assign(tools, { documents });
    Object.assign(tools.chooser, { sizeOf });
    const { promise: read, resolve: free } = Promise.withResolvers<void>();
    const other = { make: () => ({ document: "", bytes: 1 }), use: async () => await read };
    const { signal } = new AbortController();
    const before = documents.send({ namespace: "other", bytes: 1 }, other, signal);
    const sending = send();
    for (let turn = 0; turn < 5; turn++) await setImmediate();
    const { resolved } = cell.state.pod;
    assert.ok(resolved);
    const pod = { ...resolved.pod, spec: { ...resolved.pod.spec, hostname: "newest" } };
    cell.apply({ kind: "applied", resolved: { ...resolved, pod } });
    free();
    await Promise.all([before, sending]);
    assert.deepEqual(
      sent.map(({ hostname }) => hostname),
      ["newest"],
    );
    // The document's other inputs also belong to the new version.
    assert.deepEqual(looked, [undefined, "newest"]);
    assert.equal(cell.state.agent.isDispatched, true);
  });

  it(
    "keeps no place while it looks up what a newer version needs",
    { timeout: 20_000 },
    async () => {
      const { tools, cell, sent, send } = start();
      const documents = new DocumentPlaces({ small: 1, large: 1 });
      const [first, cloud] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let asked = 0;
      const find = async () => {
        if (asked++ > 0) await cloud.promise;
        return { logIns: new Map() };
      };
      Object.assign(tools, { documents, logIns: { find } });
      const { signal } = new AbortController();
      const other = async (read: Promise<void>) => {
        const use = async () => await read;
        const make = () => ({ document: "", bytes: 1 });
        await documents.send({ namespace: "other", bytes: 1 }, { make, use }, signal);
      };
      const before = other(first.promise);
      const sending = send();
      for (let turn = 0; turn < 5; turn++) await setImmediate();
      const { resolved } = cell.state.pod;
      assert.ok(resolved);
      cell.apply({ kind: "applied", resolved: { ...resolved } });
      first.resolve();
      await Promise.all([before, other(Promise.resolve())]);
      assert.deepEqual([asked, sent.length], [2, 0]);
      cloud.resolve();
      await sending;
      assert.equal(sent.length, 1);
    },
  );

  it("sends a pod that changes each time it waits for a place", { timeout: 20_000 }, async () => {
    const { tools, cell, sent, send } = start();
    let looks = 0;
    const find = async () => {
      looks++;
      const { resolved } = cell.state.pod;
      if (resolved) cell.apply({ kind: "applied", resolved: { ...resolved } });
      return { logIns: new Map() };
    };
    Object.assign(tools, { logIns: { find } });
    await send();
    assert.deepEqual([looks, sent.length], [4, 1]);
  });

  it("accounts for a document that its agent does not take", async () => {
    const { cell, agent, send } = start();
    const put = agent.putPod;
    agent.putPod = async () => await Promise.reject(new Error("no answer in time"));
    await assert.rejects(send(), /no answer in time/);
    const { documentsPaidAt = 0 } = cell.state.agent;
    assert.ok(documentsPaidAt > 0);
    agent.putPod = put;
    await send();
    assert.ok((cell.state.agent.documentsPaidAt ?? 0) > documentsPaidAt);
  });

  it("says once what is wrong with the pod's DNS", async () => {
    const { send, problems } = start();
    await send();
    await send();
    assert.deepEqual(problems, ["p MissingClusterDNS"]);
  });

  it("sends none that the agent would not take, and says what becomes of a pod that is there", async () => {
    const pod = podWith({ metadata: { uid: "p", annotations: { a: "x".repeat(maxBodyBytes) } } });
    const fresh = start({}, pod);
    await assert.rejects(fresh.send(), { code: "POD_TOO_LARGE", remedy: /of the pod$/ });
    // Before it counts as sent, so that the pod's condition can say why it is waiting.
    assert.deepEqual([fresh.sent, fresh.written], [[], []]);
    const grown = start({ cell: { status: { phase: "Claimed" } } }, pod);
    await assert.rejects(grown.send(), {
      code: "POD_TOO_LARGE",
      remedy: /tokens are not renewed$/,
    });
    assert.deepEqual(grown.sent, []);
  });

  it("sends a newer document although the clock was set back", async () => {
    const generation = (now + 3_600_000) * 1000;
    const report = { generation, initContainers: [], containers: [], ephemeralContainers: [] };
    const { send, sent } = start({ agent: { report: report as unknown as PodReport } });
    await send();
    assert.equal(sent[0]?.generation, generation + 1);
  });

  it("sends a newer document to an agent that has a generation and has not reported yet", async () => {
    const held = (now + 3_600_000) * 1000;
    const { send, sent } = start({ agent: { generation: held } });
    await send();
    assert.equal(sent[0]?.generation, held + 1);
  });

  it("gives no generation to two documents, although an agent did not answer and the clock was set back", async () => {
    const { send, agent, sent } = start({ agent: { generation: (now + 3_600_000) * 1000 } });
    const put = agent.putPod;
    agent.putPod = async (document) => {
      await put(document);
      throw new Error("no answer in time");
    };
    await assert.rejects(send());
    agent.putPod = put;
    await send();
    assert.deepEqual([sent.length, new Set(sent.map(({ generation }) => generation)).size], [2, 2]);
  });

  it("sends a pod that the agent ignored again with a newer generation", async () => {
    const { send, cell, agent, sent } = start();
    const held = (now + 3_600_000) * 1000;
    const put = agent.putPod;
    agent.putPod = async (document) => Math.max(held, (await put(document)) ?? 0);
    const isIgnored = (error: unknown): boolean => ProviderError.is(error, "CELL_POD_IGNORED");
    await assert.rejects(send(), isIgnored);
    assert.equal(cell.state.agent.isDispatched, false);
    await send();
    assert.deepEqual([cell.state.agent.isDispatched, sent[1]?.generation], [true, held + 1]);
  });

  it("does not send containers again that have ended on an earlier cell", async () => {
    const names = (list: DesiredPod["ephemeralContainers"]) => list?.map(({ name }) => name);
    const spec = {
      initContainers: [{ name: "init" }],
      containers: [{ name: "done" }, { name: "main" }],
      ephemeralContainers: [{ name: "debug-1" }, { name: "debug-2" }],
    };
    const ended = { done: { exitCode: 0 }, "debug-1": { exitCode: 137 } };
    const { send, cell, sent } = start({ containers: { ended } }, { spec });
    await send();
    const [document] = sent;
    assert.deepEqual(names(document?.initContainers), ["init"]);
    assert.deepEqual(names(document?.containers), ["main"]);
    assert.deepEqual(names(document?.ephemeralContainers), ["debug-2"]);
    assert.deepEqual([...cell.state.containers.sentEphemeral], ["debug-2"]);
  });

  it("says of ephemeral containers that no report could have that they do not start", async () => {
    const ephemeralContainers = Array.from({ length: 1001 }, (_, at) => ({ name: `debug-${at}` }));
    const spec = { containers: [{ name: "main" }], ephemeralContainers };
    const { send, sent, problems } = start({}, { spec });
    await send();
    assert.equal(sent[0]?.ephemeralContainers?.length, 1000);
    assert.ok(problems.includes("p EphemeralContainersIgnored"));
    const ended = { "debug-1": { exitCode: 0 } };
    const after = start({ containers: { ended } }, { spec });
    await after.send();
    assert.ok(!after.problems.includes("p EphemeralContainersIgnored"));
  });

  it("sends what the cell has for the pod, and what the containers had on the one before", async () => {
    const resources = { limits: { cpu: "500m" }, requests: { memory: "1Ki" } };
    const status = { containerStatuses: [{ name: "main", resources }] };
    const change = { spec: { containers: [{ name: "main" }, { name: "new" }] }, status };
    const { send, sent } = start({}, change as unknown as Pod); // the fields that are read
    await send();
    const [document] = sent;
    assert.deepEqual(document?.machine, { cpuMilli: 1500, memoryBytes: 2 ** 30 });
    assert.deepEqual(document.extendedResources, [{ resource: "example.com/card", count: 2 }]);
    assert.deepEqual(
      document.containers.map(({ granted }) => granted),
      [{ cpuMilliLimit: 500, memoryBytesRequest: 1024 }, undefined],
    );
  });

  it("sends a pod whose profile of system calls is missing again when that changes, not before", async () => {
    using folder = temporaryFolder();
    const localhost = { type: "Localhost", localhostProfile: "late.json" };
    const containers = [{ name: "main", securityContext: { seccompProfile: localhost } }];
    const { cell, sent, tools } = start({}, { spec: { containers } });
    const settings = { ...tools.settings(), seccompProfileRoot: folder.path };
    const own = { ...tools, settings: () => settings };
    const look = async (): Promise<boolean> => {
      await cell.run((context) => lookForProfiles(own, context));
      return cell.state.agent.isDispatched;
    };
    await cell.run((context) => dispatch(own, context));
    assert.equal(await look(), true);
    writeFileSync(`${folder.path}/late.json`, "{");
    assert.equal(await look(), false);
    await cell.run((context) => dispatch(own, context));
    assert.equal(await look(), true);
    writeFileSync(`${folder.path}/late.json`, '{"defaultAction":"SCMP_ACT_ALLOW"}');
    assert.equal(await look(), false);
    await cell.run((context) => dispatch(own, context));
    assert.deepEqual(
      sent.map(({ seccompProfiles }) => seccompProfiles?.[0]?.error !== undefined),
      [true, true, false],
    );
    assert.equal(cell.state.agent.missingProfiles, undefined);
  });

  it("sends for how long the pod has been active", async () => {
    const { send, sent } = start();
    await send();
    assert.equal(sent[0]?.activeForMs, 10_000);
  });
});

describe("deleteCell()", () => {
  const status = { phase: "Claimed" } as const;
  const lose = async ({ tools, cell }: ReturnType<typeof start>): Promise<void> =>
    await cell.run((context) => deleteCell(tools, context, true));
  const spec = {
    restartPolicy: "OnFailure",
    initContainers: [{ name: "side", restartPolicy: "Always" }],
    containers: [{ name: "main" }, { name: "done" }],
  };
  const running = { startedAt: "2026-01-01T00:59:55Z" };

  it("counts a lost machine as a restart of the containers that ran", async () => {
    const report = {
      initContainers: [{ name: "side", running, restartCount: 0 }],
      containers: [
        { name: "main", running, restartCount: 2 },
        { name: "done", waiting: { reason: "ContainerCreating" }, restartCount: 0 },
      ],
      ephemeralContainers: [],
    } as unknown as PodReport; // the fields that are read
    const seen = start(
      {
        cell: { status },
        agent: { report, client: undefined },
        containers: { restartCounts: { main: 4 } },
      },
      { spec },
    );
    await lose(seen);
    assert.deepEqual(seen.cell.state.containers.restartCounts, { side: 1, main: 7, done: 0 });
  });

  it("takes over the statuses that an earlier process published", async () => {
    const terminated = { exitCode: 0, reason: "Completed" };
    const containerStatuses = [
      { name: "main", restartCount: 3, state: { running } },
      { name: "done", restartCount: 1, state: { terminated } },
    ];
    const ephemeralContainerStatuses = [{ name: "debug", restartCount: 0, state: { running } }];
    const seen = start(
      {
        cell: { status },
        agent: { client: undefined },
        containers: { restartCounts: { main: 1 }, sentEphemeral: new Set(["unseen"]) },
      },
      { spec, status: { containerStatuses, ephemeralContainerStatuses } } as unknown as Pod,
    );
    await lose(seen);
    const { restartCounts, ended } = seen.cell.state.containers;
    assert.deepEqual(restartCounts, { side: 0, main: 4, done: 1 });
    const unknown = { exitCode: 137, reason: "ContainerStatusUnknown" };
    assert.deepEqual(ended, { done: terminated, debug: unknown, unseen: unknown });
  });
});
