import type { AgentStats, DesiredPod, PodReport } from "@kip/agent-api";
import { CodedError, type Clock, type Logger } from "@kip/base";
import type { ContainerExit } from "@kip/oci-runtime";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import { ContainerActor, type ContainerContext } from "../container/container-actor.ts";
import { runId } from "../state/run-id.ts";
import { GracePeriod } from "../container/grace-period.ts";
import type { PodResources } from "../container/start-container.ts";
import {
  containersOf,
  hasBegun,
  isRunning,
  newRecord,
  type ContainerRecord,
} from "../state/container-record.ts";
import { hasEnded, isFinished, planPod, type PodView, type Step } from "../state/plan.ts";
import { PodEvents } from "../state/pod-events.ts";
import { PodResourceManager, type PodResourceOptions } from "./pod-resource-manager.ts";
import { PodStore, type SavedPod } from "../storage/pod-store.ts";
import { podReport } from "../state/report.ts";
import { StartTimings } from "../state/start-timings.ts";

/** Made once: an abort without a reason makes one with a stack trace, at each plan. */
const overtaken = new Error("A newer plan took the place of this one");

/** Options of {@link PodSupervisor}. */
export interface SupervisorOptions {
  readonly directories: AgentDirectories;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Called when the report may have changed. */
  readonly onChange: () => void;
}

/**
 * Keeps the cell's pod as it is wanted. Everything that happens (a newer pod, an end of a container,
 * a verdict of a probe, a time that has come) changes the state at once and asks for a new plan;
 * the plan's steps run beside each other and tell their outcome the same way. The state changes
 * only between two awaits of this class and its actors, so no two changes ever mix.
 */
export class PodSupervisor implements AsyncDisposable {
  readonly #options: SupervisorOptions;
  readonly #store: PodStore;
  readonly #resources = new PodResourceManager();
  readonly #ending = new AbortController();
  readonly #closed = new AbortController();
  readonly #actors = new Map<string, ContainerActor>();
  #dependencies: AgentDependencies | undefined;
  #pod: DesiredPod | undefined;
  #events: PodEvents;
  #timings: StartTimings;
  #startTimeMs = 0;
  #grace: GracePeriod | undefined;
  #reason: { readonly reason: string; readonly message: string } | undefined;
  #isReleased = false;
  /** Nothing is planned before: what an earlier life has left could be taken for what is to be made. */
  #isTakenOver = false;
  #isPlanning = false;
  /** Steps that are under way. */
  readonly #steps = new Set<Promise<void>>();
  #wake = new AbortController();

  /** Knows at once what an earlier life of the agent knew; does nothing before {@link PodSupervisor.begin}. */
  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#events = new PodEvents(options.clock);
    this.#timings = new StartTimings(options.clock);
    this.#store = new PodStore(options.directories);
    const saved = this.#store.load();
    if (saved) this.#restore(saved.pod, saved.state);
  }

  /** The pod that is here, if one is. */
  get pod(): DesiredPod | undefined {
    return this.#pod;
  }

  /** The pod's network namespace; undefined with the machine's own network. */
  get networkNamespace(): string | undefined {
    return this.#resources.resources?.sandbox.networkNamespace;
  }

  /** Takes over the containers that are there, and begins to work. */
  async begin(dependencies: AgentDependencies): Promise<void> {
    // An end that comes before all are taken over is heard after that: until then a container may count as running.
    const early: ContainerExit[] = [];
    const tell = (exit: ContainerExit): void => {
      for (const actor of this.#actors.values()) this.#run(actor.exited(exit));
    };
    dependencies.runtime.onExit((exit) => void (this.#isTakenOver ? tell(exit) : early.push(exit)));
    const states = new Map((await dependencies.runtime.list()).map((state) => [state.id, state]));
    this.#dependencies = dependencies;
    for (const actor of this.#actors.values()) {
      const { run } = actor.record.saved;
      await actor.takeOver(run && states.get(run.id));
      if (run) states.delete(run.id);
    }
    for (const { id } of states.values()) await this.#removeStray(id, dependencies);
    this.#isTakenOver = true;
    for (const exit of early) tell(exit);
    this.#changed();
  }

  /** Removes a container that is not in our records; one that cannot be removed must not keep the pod from its end. */
  async #removeStray(id: string, dependencies: AgentDependencies): Promise<void> {
    try {
      await dependencies.runtime.remove(id);
    } catch (error) {
      this.#options.logger.error("Could not remove a container", { containerId: id, err: error });
    }
  }

  /** Reports with the pod that the agent can run nothing. */
  fail(message: string): void {
    this.#events.warning("Failed", message);
    this.#changed();
  }

  /**
   * Takes a pod, or a newer state of it; an older or equal one changes nothing.
   *
   * @throws {CodedError} code `AGENT_OTHER_POD`
   */
  put(pod: DesiredPod): void {
    const before = this.#pod;
    if (before && before.uid !== pod.uid) {
      throw new CodedError(
        "AGENT_OTHER_POD",
        `Cannot take pod "${pod.namespace}/${pod.name}": the cell has pod "${before.namespace}/${before.name}"`,
      );
    }
    if (before && pod.generation <= before.generation) return;
    this.#store.savePod(pod);
    this.#pod = pod;
    if (!before) {
      this.#startTimeMs = this.#options.clock.now() - (pod.activeForMs ?? 0);
      this.#timings.received();
    }
    for (const { desired, kind } of containersOf(pod)) {
      const actor = this.#actors.get(desired.name);
      if (actor) this.#updateContainer(actor.record, desired);
      else this.#addActor(newRecord(desired, kind));
    }
    this.#save();
    if (before && this.#dependencies)
      this.#run(this.#resources.refresh(pod, this.#resourceOptions(this.#dependencies)));
    this.#options.logger.info(before ? "Updated the pod" : "Received the pod", { podUid: pod.uid });
    this.#changed();
  }

  /**
   * Ends the pod within the grace period; a second call can only shorten it.
   *
   * @throws {CodedError} code `AGENT_NO_POD`
   */
  remove(graceSeconds: number): void {
    if (!this.#pod) throw new CodedError("AGENT_NO_POD", "Cannot stop the pod: there is none");
    this.#end(graceSeconds * 1000);
  }

  /** The report for kip; undefined before there is a pod. */
  report(): PodReport | undefined {
    const pod = this.#pod;
    if (!pod) return undefined;
    return podReport({
      pod,
      containers: this.#records(),
      events: this.#events,
      startTimeMs: this.#startTimeMs,
      isEnding: this.#grace !== undefined,
      ...this.#reason,
      timingsMs: this.#timings.values,
      isReleased: this.#isReleased,
    });
  }

  /**
   * ID of a running container.
   *
   * @throws {CodedError} code `AGENT_CONTAINER_UNKNOWN` or `AGENT_CONTAINER_NOT_RUNNING`
   */
  runningId(name: string): string {
    const record = this.#record(name);
    if (isRunning(record) && record.saved.run) return record.saved.run.id;
    throw new CodedError(
      "AGENT_CONTAINER_NOT_RUNNING",
      `Cannot reach container "${name}": it does not run`,
    );
  }

  /** IDs of the running containers by name. */
  running(): ReadonlyMap<string, string> {
    const running = this.#records().filter(isRunning);
    return new Map(running.map(({ desired, saved }) => [desired.name, saved.run?.id ?? ""]));
  }

  /** How the probes of the containers went. */
  probes(): NonNullable<AgentStats["probes"]> {
    return this.#records().flatMap(({ desired, probes }) =>
      [...probes].map(([kind, counts]) => ({ container: desired.name, kind, ...counts })),
    );
  }

  /**
   * Where a container's log is: of the present run, or of the last that has begun.
   *
   * @throws {CodedError} code `AGENT_CONTAINER_UNKNOWN`
   */
  log(name: string, previous: boolean): { readonly id: string; readonly path: string } {
    const { saved, waiting } = this.#record(name);
    const { run, previousLogPath } = saved;
    const isOver = run?.exit !== undefined && waiting !== undefined;
    const wantsPresent = run !== undefined && hasBegun(run) && (!previous || isOver);
    if (wantsPresent) return { id: run.id, path: run.logPath };
    if (run === undefined || previousLogPath === undefined) {
      const which = previous ? "previous terminated container" : "container";
      throw new CodedError(
        "AGENT_CONTAINER_UNKNOWN",
        `Cannot read the log: ${which} "${name}" in pod "${this.#pod?.name}" not found`,
      );
    }
    return { id: runId(this.#pod?.uid ?? "", name, run.attempt - 1), path: previousLogPath };
  }

  /** Lets go of the containers, which go on running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    this.#wake.abort();
    for (const actor of this.#actors.values()) actor.detach();
    // Steps that wait were cut off above; the others end by themselves, and are done then.
    await Promise.all(this.#steps);
    await this.#dependencies?.runtime[Symbol.asyncDispose]();
  }

  #restore(pod: DesiredPod, state: SavedPod): void {
    const { clock } = this.#options;
    this.#pod = pod;
    this.#events = new PodEvents(clock, state.events);
    this.#timings = new StartTimings(clock, state.timingsMs);
    this.#startTimeMs = state.startTimeMs;
    this.#isReleased = state.isReleased;
    if (state.reason !== undefined)
      this.#reason = { reason: state.reason, message: state.message ?? "" };
    if (state.endMs !== undefined) {
      this.#grace = new GracePeriod(clock, Math.max(0, state.endMs - clock.now()));
      this.#ending.abort();
    }
    for (const { desired, kind } of containersOf(pod)) {
      const saved = state.containers.find((container) => container.name === desired.name);
      this.#addActor(newRecord(desired, kind, saved));
    }
  }

  #addActor(record: ContainerRecord): void {
    this.#actors.set(record.desired.name, new ContainerActor(record, this.#context()));
  }

  #updateContainer(record: ContainerRecord, desired: ContainerRecord["desired"]): void {
    if (record.desired.image !== desired.image) {
      record.image = { kind: "unknown" };
      record.retryAtMs = 0;
      delete record.saved.backoff; // it was another program's
    }
    record.desired = desired;
  }

  #end(graceMs: number): void {
    if (this.#grace) this.#grace.shorten(graceMs);
    else this.#grace = new GracePeriod(this.#options.clock, graceMs);
    this.#save();
    this.#ending.abort(new Error("The pod is to end"));
    this.#changed();
  }

  /** Plans once for all that changed in this turn of the event loop. */
  #changed(): void {
    if (this.#isPlanning || this.#closed.signal.aborted) return;
    this.#isPlanning = true;
    setImmediate(() => {
      this.#isPlanning = false;
      if (this.#closed.signal.aborted) return;
      if (this.#pod && this.#dependencies && this.#isTakenOver)
        this.#advance(this.#pod, this.#dependencies);
      if (this.#pod) this.#save();
      this.#options.onChange();
    });
  }

  #advance(pod: DesiredPod, dependencies: AgentDependencies): void {
    this.#wake.abort(overtaken);
    this.#wake = new AbortController();
    const view = this.#view(pod);
    // The local cloud reads this line from the console, see admission/start-phase.ts.
    if (this.#timings.running(this.#records()))
      this.#options.logger.info("Pod has started", { podUid: this.#pod?.uid });
    if (view.deadlineMs !== undefined && view.nowMs >= view.deadlineMs) {
      this.#exceedDeadline(pod);
      return;
    }
    const steps = planPod(view);
    for (const step of steps) this.#take(step, pod, dependencies);
    const times = steps.flatMap((step) => (step.kind === "wake" ? [step.atMs] : []));
    if (times.length > 0) this.#wakeAt(Math.min(...times));
  }

  #view(pod: DesiredPod): PodView {
    const containers = this.#records();
    const isStopping = this.#grace !== undefined;
    const hasDeadline =
      pod.activeDeadlineSeconds !== undefined && !isStopping && !isFinished({ pod, containers });
    return {
      pod,
      containers,
      preparation: this.#preparation(),
      prepareAtMs: this.#resources.retryAtMs,
      isStopping,
      nowMs: this.#options.clock.now(),
      ...(hasDeadline && {
        deadlineMs: this.#startTimeMs + (pod.activeDeadlineSeconds ?? 0) * 1000,
      }),
    };
  }

  #preparation(): PodView["preparation"] {
    if (this.#isReleased) return "released";
    if (this.#resources.isUnderway) return "underway";
    return this.#resources.resources ? "done" : "none";
  }

  #exceedDeadline(pod: DesiredPod): void {
    const message = "Pod was active on the node longer than the specified deadline";
    this.#reason = { reason: "DeadlineExceeded", message };
    this.#events.normal("DeadlineExceeded", message);
    this.#end(pod.terminationGracePeriodSeconds * 1000);
  }

  #take(step: Step, pod: DesiredPod, dependencies: AgentDependencies): void {
    switch (step.kind) {
      case "prepare":
        return this.#run(this.#resources.prepare(pod, this.#resourceOptions(dependencies)));
      case "pull":
        return this.#run(this.#actor(step.container).pull());
      case "hold":
        return this.#run(this.#actor(step.container).hold());
      case "start":
        return this.#run(this.#actor(step.container).start());
      case "stop": {
        const seconds = step.graceSeconds ?? pod.terminationGracePeriodSeconds;
        const whole = new GracePeriod(this.#options.clock, seconds * 1000);
        const grace = this.#grace ?? whole;
        return this.#run(this.#actor(step.container).stop(step, grace));
      }
      case "release":
        return this.#run(this.#release(pod, dependencies));
      case "wake":
        return undefined;
    }
  }

  /** Runs a step beside the others. A failure here is a defect of ours: steps handle their own. */
  #run(step: Promise<void>): void {
    const whole = step
      .catch((error: unknown) =>
        this.#options.logger.error("Could not execute a step", { err: error }),
      )
      .finally(() => {
        this.#steps.delete(whole);
        this.#changed();
      });
    this.#steps.add(whole);
  }

  async #release(pod: DesiredPod, dependencies: AgentDependencies): Promise<void> {
    await this.#resources.release(pod, this.#resourceOptions(dependencies));
    this.#isReleased = true;
    this.#options.logger.info("Released the pod", { podUid: pod.uid });
  }

  #wakeAt(atMs: number): void {
    const { clock } = this.#options;
    clock.sleep(Math.max(0, atMs - clock.now()), this.#wake.signal).then(
      () => this.#changed(),
      () => {},
    );
  }

  #save(): void {
    this.#store.saveState({
      startTimeMs: this.#startTimeMs,
      ...(this.#grace && { endMs: this.#grace.endMs }),
      ...this.#reason,
      isReleased: this.#isReleased,
      timingsMs: this.#timings.values,
      events: this.#events.list,
      containers: this.#records().map((record) => record.saved),
    });
  }

  #records(): readonly ContainerRecord[] {
    return [...this.#actors.values()].map((actor) => actor.record);
  }

  #record(name: string): ContainerRecord {
    const actor = this.#actors.get(name);
    if (actor) return actor.record;
    throw new CodedError("AGENT_CONTAINER_UNKNOWN", `Cannot find container "${name}" in the pod`);
  }

  #actor(name: string): ContainerActor {
    const actor = this.#actors.get(name);
    if (!actor) throw new Error(`No container ${name}`);
    return actor;
  }

  #resourceOptions(dependencies: AgentDependencies): PodResourceOptions {
    const { directories, clock, logger } = this.#options;
    return { dependencies, directories, events: this.#events, clock, logger };
  }

  #context(): ContainerContext {
    const { directories, clock, logger } = this.#options;
    // Read when it is used: the pod changes, the dependencies come after the first pod.
    const pod = (): DesiredPod => present(this.#pod);
    const resources = (): PodResources => present(this.#resources.resources);
    const dependencies = (): AgentDependencies => present(this.#dependencies);
    const events = (): PodEvents => this.#events;
    return {
      directories,
      clock,
      logger,
      ending: AbortSignal.any([this.#ending.signal, this.#closed.signal]),
      get pod() {
        return pod();
      },
      get resources() {
        return resources();
      },
      get dependencies() {
        return dependencies();
      },
      get events() {
        return events();
      },
      runningId: (name) => this.runningId(name),
      isRestarted: (record) => this.#isRestarted(record),
      imageReady: (timingsMs) => this.#timings.imageReady(timingsMs),
      changed: () => this.#changed(),
      save: () => this.#save(),
    };
  }

  #isRestarted(record: ContainerRecord): boolean {
    const pod = present(this.#pod);
    if (this.#grace || isFinished({ pod, containers: this.#records() })) return false;
    return !hasEnded(record, pod.restartPolicy);
  }
}

/** What the order of steps guarantees to be there. */
function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("A step ran before its time");
  return value;
}
