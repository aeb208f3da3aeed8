import { hasCode, KipError, type Clock, type Logger } from "@kip/base";
import {
  waitForAgent,
  type AgentClient,
  type DesiredRegistry,
  type PodReport,
} from "@kip/agent-api";
import type { CloudDriver, Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { desiredPod, restartPolicy, unsupportedVolumes } from "../dispatch/desired-pod.ts";
import type { DnsSettings } from "../dispatch/pod-network-files.ts";
import type { CellIdentities } from "../identity/cell-identity.ts";
import { keepIdentity } from "../identity/keep-identity.ts";
import type { LogArchive } from "../logs/log-archive.ts";
import type { CellChooser } from "../selection/cell-chooser.ts";
import type { CellActor } from "./cell-actor.ts";
import { forgetCell, wasClaimed, type CellMemory } from "./cell-memory.ts";
import type { CellStep } from "./cell-plan.ts";
import { podAddress } from "./pod-address.ts";
import { CellStatusWriter } from "./cell-status-writer.ts";
import type { CellStore } from "./cell-store.ts";
import { startPhases, type CellStatus } from "./cell.ts";
import { userData } from "./user-data.ts";

/** Limit for saving the logs of a finished pod, milliseconds. */
const saveLogsMs = 120_000;

/** What the steps work with. */
export interface CellStepsOptions {
  readonly store: CellStore;
  readonly driver: CloudDriver;
  readonly chooser: CellChooser;
  readonly identities: CellIdentities;
  readonly archive: LogArchive;
  readonly dns: () => Promise<DnsSettings>;
  readonly registries: readonly DesiredRegistry[];
  /** The virtual node's address, `status.hostIP` of its pods. */
  readonly nodeIp: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Something happened that belongs into an event of the pod. */
  readonly onEvent: (memory: CellMemory, reason: string, message: string) => void;
}

type Executors = {
  readonly [K in CellStep["kind"]]: (
    actor: CellActor,
    signal: AbortSignal,
    step: Extract<CellStep, { kind: K }>,
  ) => Promise<void>;
};

/** Does the steps of {@link planCell}: one executor per kind, each safe to repeat. */
export class CellSteps {
  readonly #options: CellStepsOptions;
  readonly #statuses: CellStatusWriter;
  readonly #executors: Executors = {
    createCell: (actor) => this.#createCell(actor),
    observeInstance: (actor) => this.#observeInstance(actor.memory),
    launch: (actor, signal) => this.#launch(actor, signal),
    awaitRunning: (actor, signal) => this.#awaitRunning(actor.memory, signal),
    connect: (actor, signal) => this.#connect(actor, signal),
    dispatch: (actor, signal) => this.#dispatch(actor.memory, signal),
    drain: (actor, signal, step) => this.#drain(actor.memory, step.graceSeconds, signal),
    saveLogs: (actor, signal) => this.#saveLogs(actor.memory, signal),
    terminate: (actor, signal) => this.#terminate(actor.memory, signal),
    deleteCell: (actor, _signal, step) => this.#deleteCell(actor, step.isLost),
    wait: async () => {},
    done: async () => {},
  };

  constructor(options: CellStepsOptions) {
    this.#options = options;
    this.#statuses = new CellStatusWriter(options.store);
  }

  /** Does one step. @throws whatever made it fail; the actor repeats it with a back-off */
  async execute(step: CellStep, actor: CellActor, signal: AbortSignal): Promise<void> {
    // The kind picks the executor that takes exactly this step.
    const executor = this.#executors[step.kind] as (
      actor: CellActor,
      signal: AbortSignal,
      step: CellStep,
    ) => Promise<void>;
    await executor(actor, signal, step);
  }

  /** Completes the times of the start with what the agent measured, once. */
  noteStart(memory: CellMemory): void {
    const { report, status } = memory;
    const { pull, unpack, start } = report?.timingsMs ?? {};
    if (start === undefined || !status.startMs || status.startMs.start !== undefined) return;
    const startMs = rounded({ ...status.startMs, pull: pull ?? 0, unpack: unpack ?? 0, start });
    this.#setStatus(memory, { startMs });
    const words = startPhases.map(
      (phase) => `${phase} ${((startMs[phase] ?? 0) / 1000).toFixed(2)} s`,
    );
    this.#options.onEvent(memory, "CellStartTimes", `The pod's start took: ${words.join(", ")}`);
  }

  async #createCell(actor: CellActor): Promise<void> {
    const { memory } = actor;
    const { chooser, store, onEvent, clock } = this.#options;
    const resolved = required(memory.resolved, "the pod is not known");
    const volumes = unsupportedVolumes(resolved.pod);
    if (volumes.length > 0) {
      throw new KipError(
        "VOLUME_UNSUPPORTED",
        `Cannot give the pod its volumes ${volumes.join(", ")}: this kind is not supported`,
        {
          remedy: "Use emptyDir, hostPath, configMap, secret, downwardAPI or projected volumes",
        },
      );
    }
    if (restartPolicy(resolved.pod) === "Never" && hasRun(resolved.pod)) {
      // It ran on a cell that is gone; with this policy it is not started a second time.
      memory.isPodFinished = true;
      memory.waitingFor = { reason: "CellLost", message: "The machine of this pod is gone" };
      return;
    }
    const began = clock.monotonic();
    const spec = await chooser.choose(memory);
    const cell = await store.create(spec);
    memory.startMs.api = clock.monotonic() - began;
    memory.waitingFor = undefined;
    memory.status = cell.status ?? { phase: "Pending" };
    // A Cell just written has no instance; one found may have.
    memory.instanceState = cell.status ? "unknown" : "none";
    const type = cell.spec.instanceType;
    onEvent(
      memory,
      "CellCreated",
      `Cell "${cell.metadata.name ?? ""}" of type ${type} was created for this pod`,
    );
    actor.cellSeen(cell);
    if (memory.cell) return;
    throw new KipError(
      "CELL_BEING_DELETED",
      `Cannot create Cell "${cell.metadata.name ?? ""}": the one before it is still being deleted`,
      { retryable: true, remedy: "Remove the finalizers that others than kip put on it" },
    );
  }

  async #observeInstance(memory: CellMemory): Promise<void> {
    const cell = required(memory.cell, "there is no cell");
    const { driver } = this.#options;
    const id = cell.status?.instanceID;
    const instance =
      id === undefined
        ? (await driver.list()).find((each) => each.token === cell.metadata.uid)
        : await driver.describe(id);
    if (!instance) {
      memory.instanceState = id === undefined ? "none" : "gone";
      return;
    }
    this.#instanceSeen(memory, instance);
  }

  async #launch(actor: CellActor, signal: AbortSignal): Promise<void> {
    const { memory } = actor;
    const cell = required(memory.cell, "there is no cell");
    const { driver, identities, clock, onEvent } = this.#options;
    const began = clock.monotonic();
    const name = cell.metadata.name ?? "";
    const { identity, expires } = await identities.issueForCell(name);
    let instance: Instance;
    try {
      instance = await driver.launch(
        {
          token: cell.metadata.uid ?? "",
          name,
          instanceType: cell.spec.instanceType,
          launchType: cell.spec.launchType,
          image: cell.spec.image,
          rootDiskBytes: cell.spec.rootDiskBytes,
          userData: userData(identity),
          privateIpOnly: cell.spec.privateIPOnly,
          tags: {
            "kip-pod-namespace": cell.spec.podRef.namespace,
            "kip-pod-name": cell.spec.podRef.name,
            "kip-pod-uid": cell.spec.podRef.uid,
          },
        },
        signal,
      );
    } catch (error) {
      // Whether the cloud has started something is not known now.
      memory.instanceState = "unknown";
      throw error;
    }
    memory.startMs.cloud = clock.monotonic() - began;
    memory.waitingFor = undefined;
    this.#instanceSeen(memory, instance);
    memory.unreachableSince = clock.monotonic();
    this.#setStatus(memory, {
      phase: "Launching",
      instanceID: instance.id,
      identityExpires: expires.toISOString(),
    });
    onEvent(
      memory,
      "CellLaunched",
      `Instance "${instance.id}" (${instance.instanceType}) was started`,
    );
  }

  async #awaitRunning(memory: CellMemory, signal: AbortSignal): Promise<void> {
    const { driver, clock } = this.#options;
    const began = clock.monotonic();
    const id = required(memory.instance, "there is no instance").id;
    try {
      this.#instanceSeen(memory, await driver.waitForRunning(id, signal));
    } catch (error) {
      memory.instanceState = "unknown";
      throw error;
    }
    memory.startMs.cloud = (memory.startMs.cloud ?? 0) + clock.monotonic() - began;
    this.#setStatus(memory, { phase: "Booting", ...addresses(memory.instance) });
  }

  async #connect(actor: CellActor, signal: AbortSignal): Promise<void> {
    const { memory } = actor;
    const cell = required(memory.cell, "there is no cell");
    const { identities, clock, logger } = this.#options;
    const began = clock.monotonic();
    memory.unreachableSince ??= began;
    const pair = await identities.clientPair();
    let answeredAt = began;
    const agent = await waitForAgent({
      address: required(memory.instance?.managementIp, "the instance has no address"),
      cellName: cell.metadata.name ?? "",
      ca: identities.ca,
      certificate: pair.certificate,
      key: pair.key,
      logger,
      signal,
      onAccepted: () => {
        answeredAt = clock.monotonic();
      },
    });
    try {
      signal.throwIfAborted();
      const info = await agent.info(signal);
      const isFirst =
        info.podUid === undefined && !["Claimed", "Draining"].includes(memory.status.phase);
      if (isFirst) {
        memory.startMs.boot = answeredAt - began;
        memory.startMs.dial = clock.monotonic() - answeredAt;
        this.#setStatus(memory, { phase: "Ready", ...addresses(memory.instance) });
      }
    } catch (error) {
      await agent[Symbol.asyncDispose]();
      throw error;
    }
    actor.agentFound(agent);
    void agent.closed.then(() => {
      if (memory.agent === agent) actor.agentLost();
    });
    void this.#followReports(actor, agent);
    void keepIdentity({
      agent,
      identities,
      clock,
      logger,
      cellName: cell.metadata.name ?? "",
      expires: () => Date.parse(memory.status.identityExpires ?? ""),
      onRenewed: (expires) => this.#setStatus(memory, { identityExpires: expires.toISOString() }),
    });
  }

  async #followReports(actor: CellActor, agent: AgentClient): Promise<void> {
    const abort = new AbortController();
    void agent.closed.then(() => abort.abort());
    try {
      for await (const report of agent.status(abort.signal)) {
        // A cell that was given up may still send.
        if (actor.memory.agent === agent) actor.reportSeen(report);
      }
    } catch (error) {
      const level = hasCode(error, "AGENT_UNREACHABLE") ? "debug" : "warn";
      this.#options.logger[level]("Status stream of a cell ended", { err: error });
    }
    // Without its status stream a connection is of no use: a new one is made.
    await agent[Symbol.asyncDispose]();
  }

  async #dispatch(memory: CellMemory, signal: AbortSignal): Promise<void> {
    const { clock, nodeIp, registries, dns, onEvent } = this.#options;
    const resolved = required(memory.resolved, "the pod is not known");
    const agent = required(memory.agent, "the agent is not connected");
    const cell = required(memory.cell, "there is no cell");
    const podIp = podAddress(memory, resolved.pod.spec?.hostNetwork === true);
    const document = desiredPod(resolved, {
      addresses: { podIPs: [podIp], hostIPs: [nodeIp] },
      dns: await dns(),
      registries,
      generation: clock.now() * 1000,
    });
    if (memory.status.phase !== "Claimed") {
      // Written before the agent hears of the pod: a cell that may run it is never taken for unused.
      memory.status = { ...memory.status, phase: "Claimed", startMs: rounded(memory.startMs) };
      await this.#statuses.write(cell, memory.status);
      onEvent(memory, "CellReady", `Cell "${cell.metadata.name ?? ""}" answers at ${podIp}`);
    }
    await agent.putPod(document, signal);
    // Content that changed while it was on its way is sent with the next dispatch.
    memory.isDispatched = memory.resolved === resolved;
    memory.waitingFor = undefined;
  }

  async #drain(memory: CellMemory, graceSeconds: number, signal: AbortSignal): Promise<void> {
    const agent = required(memory.agent, "the agent is not connected");
    if (memory.status.phase !== "Draining") this.#setStatus(memory, { phase: "Draining" });
    try {
      await agent.deletePod(graceSeconds, signal);
    } catch (error) {
      if (!hasCode(error, "AGENT_NO_POD")) throw error;
      memory.isAgentEmpty = true;
    }
    memory.drainSent = graceSeconds;
  }

  async #saveLogs(memory: CellMemory, signal: AbortSignal): Promise<void> {
    const { agent } = memory;
    // After a removal the pod's object goes at once, and its logs with it; a pod that gets another
    // cell goes on with the logs of that one.
    if (memory.wanted.kind === "run" && memory.isPodFinished && agent) {
      const timeLimit = AbortSignal.timeout(saveLogsMs);
      const either = AbortSignal.any([signal, timeLimit]);
      try {
        const report = memory.report ?? (await firstReport(agent, either));
        if (report) await this.#options.archive.save(memory.podRef.uid, agent, report, either);
      } catch (error) {
        // A cell that does not hand out its logs is not kept, and paid for, because of them.
        if (signal.aborted || !timeLimit.aborted) throw error;
        this.#options.logger.warn("Logs of a finished pod could not be saved in time");
      }
    }
    memory.areLogsSaved = true;
  }

  async #terminate(memory: CellMemory, signal: AbortSignal): Promise<void> {
    const { driver } = this.#options;
    const id = required(memory.instance, "there is no instance").id;
    if (memory.status.phase !== "Terminating") this.#setStatus(memory, { phase: "Terminating" });
    await driver.terminate(id);
    await driver.waitForTerminated(id, signal);
    memory.instanceState = "gone";
    await memory.agent?.[Symbol.asyncDispose]();
  }

  async #deleteCell(actor: CellActor, isLost: boolean): Promise<void> {
    const { memory } = actor;
    const { store, onEvent, logger } = this.#options;
    const cell = required(memory.cell, "there is no cell");
    await store.remove(cell);
    logger.info("Cell was deleted", { cell: cell.metadata.name, podUid: memory.podRef.uid });
    const { agent } = memory;
    if (!isLost) {
      forgetCell(memory);
      await agent?.[Symbol.asyncDispose]();
      return;
    }
    const hadPod = wasClaimed(memory.status);
    const mayRunAgain =
      !hadPod || (memory.resolved !== undefined && restartPolicy(memory.resolved.pod) !== "Never");
    const message = `Cell "${cell.metadata.name ?? ""}" is gone; the pod ${mayRunAgain ? "gets a new one" : "is not started again (restartPolicy Never)"}`;
    onEvent(memory, "CellLost", message);
    memory.attempt = cell.spec.attempt + 1;
    memory.restartCounts = restartCounts(memory, hadPod);
    forgetCell(memory);
    if (!mayRunAgain) {
      memory.isPodFinished = true;
      memory.waitingFor = { reason: "CellLost", message };
    }
    await agent?.[Symbol.asyncDispose]();
  }

  #instanceSeen(memory: CellMemory, instance: Instance): void {
    memory.instance = instance;
    if (instance.state === "running") memory.instanceState = "running";
    else memory.instanceState = instance.state === "pending" ? "pending" : "gone";
  }

  /** Notes a new status and writes it in the background; the newest one wins. */
  #setStatus(memory: CellMemory, change: Partial<CellStatus>): void {
    memory.status = { ...memory.status, ...change };
    const { cell, status } = memory;
    if (!cell) return;
    memory.cell = { ...cell, status };
    this.#statuses.write(cell, status).catch((error: unknown) => {
      this.#options.logger.warn("Status of a cell could not be written", { err: error });
    });
  }
}

/** The report that an agent sends when it is asked; undefined if it has no pod. */
async function firstReport(
  agent: AgentClient,
  signal: AbortSignal,
): Promise<PodReport | undefined> {
  for await (const report of agent.status(signal)) return report;
  signal.throwIfAborted();
  return undefined;
}

function hasRun(pod: Pod): boolean {
  return (pod.status?.containerStatuses ?? []).some(
    ({ state }) => state?.running ?? state?.terminated,
  );
}

function addresses(instance: Instance | undefined): Pick<CellStatus, "ip" | "podIP"> {
  return {
    ...(instance?.managementIp !== undefined && { ip: instance.managementIp }),
    ...(instance?.podIp !== undefined && { podIP: instance.podIp }),
  };
}

function restartCounts(memory: CellMemory, hadPod: boolean): Readonly<Record<string, number>> {
  const statuses = memory.report?.containers ?? [];
  const counts: Record<string, number> = { ...memory.restartCounts };
  for (const { name, restartCount } of statuses) {
    counts[name] = (memory.restartCounts[name] ?? 0) + restartCount + (hadPod ? 1 : 0);
  }
  return counts;
}

function rounded(startMs: CellMemory["startMs"]): NonNullable<CellStatus["startMs"]> {
  return Object.fromEntries(Object.entries(startMs).map(([phase, ms]) => [phase, Math.round(ms)]));
}

function required<T>(value: T | undefined, problem: string): T {
  if (value === undefined) throw new TypeError(`Cannot do this step: ${problem}`);
  return value;
}
