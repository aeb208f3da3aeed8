import fs from "node:fs/promises";
import type { DesiredPod } from "@kip/agent-api";
import { errorText, hasCode, isCodedError, type Clock, type Logger } from "@kip/base";
import type { ContainerExit, ContainerState } from "@kip/oci-runtime";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import { startProbes, type RunningProbes } from "../checks/container-probes.ts";
import { podAddress, runHook, type CheckTarget } from "../checks/handlers.ts";
import { goDuration } from "../state/go-duration.ts";
import { obtainImage } from "../image/obtain-image.ts";
import {
  isRunning,
  nextAttempt,
  type ContainerRecord,
  type ContainerRun,
} from "../state/container-record.ts";
import { crashDelayMs, failureDelayMs } from "../state/crash-backoff.ts";
import type { Step } from "../state/plan.ts";
import type { PodEvents } from "../state/pod-events.ts";
import { shownId } from "../state/run-id.ts";
import { exitReport, startErrorReport } from "./exit-report.ts";
import type { GracePeriod } from "./grace-period.ts";
import {
  createContainer,
  describeRun,
  discardRun,
  hasFiles,
  pidNamespaceOf,
  runDirectory,
  type PodResources,
} from "./start-container.ts";
import { stopContainer } from "./stop-container.ts";
import { terminationMessage } from "./termination-message.ts";

/** What a container's actor needs of its pod. */
export interface ContainerContext {
  readonly pod: DesiredPod;
  readonly resources: PodResources;
  readonly dependencies: AgentDependencies;
  readonly directories: AgentDirectories;
  readonly events: PodEvents;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborts when the pod is to end. */
  readonly ending: AbortSignal;
  /** ID of a running container of the pod. @throws {CodedError} if it does not run */
  runningId(name: string): string;
  /** Whether a container that has ended is to be started again. */
  isRestarted(record: ContainerRecord): boolean;
  /** An image of the container's first start is there. */
  imageReady(timingsMs: { readonly pull: number; readonly unpack: number } | undefined): void;
  /** Something changed: plan again, and report. */
  changed(): void;
  /** Writes the state down now, before something is done that relies on it. */
  save(): void;
}

/** For how long a failed pull shows its error before it shows that it is held back, milliseconds. */
const errorShownMs = 1000;

/** After how long a container that could not be stopped is stopped again, milliseconds. */
const stopAgainMs = 1000;

/** Why a container is stopped, as the plan has it. */
type StopReason = Pick<Extract<Step, { kind: "stop" }>, "message" | "restarts">;

/** Executes the steps of one container and records their outcome. */
export class ContainerActor {
  readonly record: ContainerRecord;
  readonly #context: ContainerContext;
  #ended = new AbortController();
  readonly #detach = new AbortController();
  #probes: RunningProbes | undefined;
  /** Settles when the end of the run, if it has come, is in the record. */
  #exitNoted: Promise<void> = Promise.resolve();

  constructor(record: ContainerRecord, context: ContainerContext) {
    this.record = record;
    this.#context = context;
  }

  /** Gets the image. */
  async pull(): Promise<void> {
    const { record } = this;
    const { events, clock, dependencies, pod, ending } = this.#context;
    const attempt = nextAttempt(record);
    const failures = record.image.kind === "failed" ? record.image.failures : 0;
    record.image = { kind: "pulling" };
    try {
      const { images, cacheFolder } = dependencies;
      const obtained = await obtainImage(record.desired, {
        pod,
        images,
        cacheFolder,
        events,
        clock,
        signal: ending,
      });
      record.image = { kind: "ready", image: obtained.image, attempt };
      if (failures > 0) delete record.waiting;
      this.#context.imageReady(obtained.timingsMs);
    } catch (error) {
      if (ending.aborted) return;
      const reason = isCodedError(error) ? String(error.facts["reason"]) : "ErrImagePull";
      const message = errorText(error);
      const failedAtMs = clock.now();
      const retryAtMs = failedAtMs + failureDelayMs(failures + 1);
      record.image = {
        kind: "failed",
        reason,
        message,
        failures: failures + 1,
        retryAtMs,
        ...(reason === "ErrImagePull" && { holdAtMs: failedAtMs + errorShownMs }),
      };
      events.warning("Failed", `Error: ${reason}`, record.desired.name);
      record.waiting = { reason, message };
    } finally {
      this.#context.changed();
    }
  }

  /** Shows that the next pull is being held back, as the kubelet does when it next looks at the pod. */
  async hold(): Promise<void> {
    const { record } = this;
    const { image } = record;
    if (image.kind !== "failed") return;
    const { holdAtMs: _, ...held } = image;
    record.image = held;
    const { name, image: imageName } = record.desired;
    const message = `Back-off pulling image "${imageName}"`;
    this.#context.events.normal("BackOff", message, name);
    this.#context.events.warning("Failed", "Error: ImagePullBackOff", name);
    record.waiting = {
      reason: "ImagePullBackOff",
      message: `${message}: ${image.reason}: ${image.message}`,
    };
    await Promise.resolve();
  }

  /** Makes the container and starts it; resolves after its postStart hook. */
  async start(): Promise<void> {
    const { record } = this;
    const { dependencies, events, directories, clock, pod, resources } = this.#context;
    const { desired, saved, image: imageState } = record;
    if (imageState.kind !== "ready") return;
    record.activity = "starting";
    const attempt = nextAttempt(record);
    const input = {
      pod,
      container: desired,
      image: imageState.image,
      attempt,
      resources,
      directories,
      dependencies,
    };
    const isPlain = desired.tty !== true && desired.stdin !== true;
    // A run that is made again keeps its ID.
    const preparedId = isPlain && !saved.run ? dependencies.runtime.takePreparedId() : undefined;
    const run = describeRun(input, preparedId);
    const isRepeated = saved.run?.id === run.id;
    this.#beginRun(run);
    try {
      // Not always: it costs the start of a program, which a first start can do without.
      if (isRepeated) await discardRun(run, { directories, dependencies });
      await createContainer(run, { ...input, pidNamespace: await this.#targetNamespace() });
      events.normal("Created", `Created container: ${desired.name}`, desired.name);
      await dependencies.runtime.start(run.id);
      saved.run = { startedAtMs: clock.now(), ...saved.run, ...run };
      record.createFailures = 0;
      // A process that ended at once has set what it waits for by now.
      if (isRunning(record)) delete record.waiting;
      events.normal("Started", `Started container ${desired.name}`, desired.name);
      this.#context.save();
      this.#context.changed();
      // Nothing takes the container for started or ready before.
      if (await this.#postStart()) this.#watch();
    } catch (error) {
      await this.#startFailed(run, error);
    } finally {
      delete record.activity;
      this.#context.changed();
    }
  }

  /** Ends the container. Its end itself comes by {@link ContainerActor.exited}. */
  async stop({ message, restarts }: StopReason, grace: GracePeriod): Promise<void> {
    const { record } = this;
    const { run } = record.saved;
    if (!run) return;
    const { dependencies, events, clock, logger } = this.#context;
    record.activity = "stopping";
    record.saved.run = { ...run, restarts };
    events.normal("Killing", message, record.desired.name);
    // Its readiness probe goes on while it terminates.
    this.#probes?.endKilling();
    this.#context.changed();
    const ended = AbortSignal.any([this.#ended.signal, this.#detach.signal]);
    try {
      const target = this.#target(run);
      await stopContainer(run, {
        container: record.desired,
        grace,
        ended,
        target,
        dependencies,
        events,
        clock,
      });
      if (!ended.aborted) await new Promise((resolve) => ended.addEventListener("abort", resolve));
    } catch (error) {
      logger.error("Could not stop a container", { container: record.desired.name, err: error });
      await clock.sleep(stopAgainMs, ended).catch(() => {}); // it has ended
    } finally {
      // Until then it would count as running, and be stopped again.
      await this.#exitNoted;
      delete record.activity;
      this.#context.changed();
    }
  }

  /** Takes note of the container's end. */
  async exited(exit: ContainerExit): Promise<void> {
    const { run } = this.record.saved;
    if (run?.id !== exit.id || run.exit) return;
    this.#exitNoted = this.#noteExit(run, exit);
    await this.#exitNoted;
    await this.#discard(run);
  }

  async #noteExit(run: ContainerRun, exit: ContainerExit): Promise<void> {
    const { record } = this;
    const { saved } = record;
    this.#probes?.end();
    this.#ended.abort();
    // No plan acts on the container until its end is noted.
    const isIdle = record.activity === undefined;
    if (isIdle) record.activity = "stopping";
    const message = exit.lost ? undefined : await this.#lastWords(run, exit.exitCode);
    const startedAtMs = saved.run?.startedAtMs;
    const report = exitReport(exit, { message, startedAtMs, containerId: this.#shownId(run) });
    if (isIdle) delete record.activity;
    this.#runEnded({ ...run, ...saved.run, exit: report }, exit.finishedAtMs);
  }

  /** Goes on with a container that an earlier life of the agent has left in this state. */
  async takeOver(state: ContainerState | undefined): Promise<void> {
    const { saved } = this.record;
    const { run } = saved;
    if (!run) return;
    if (run.exit) {
      // The agent may have ended before it had removed all of it.
      if (state || hasFiles(this.#context.directories, run)) await this.#discard(run);
      return;
    }
    if (state?.status === "running") {
      const startedAtMs = run.startedAtMs ?? state.startedAtMs ?? state.createdAtMs;
      saved.run = { ...run, startedAtMs };
      this.#watch();
    } else if (state?.status === "exited" && state.exit) {
      await this.exited(state.exit);
    } else if (state?.status === "created" || run.startedAtMs === undefined) {
      await this.#discard(run);
    } else {
      const finishedAtMs = this.#context.clock.now();
      await this.exited({ id: run.id, exitCode: 255, oomKilled: false, finishedAtMs, lost: true });
    }
  }

  /** Stops probes and waits; the container goes on running. */
  detach(): void {
    this.#probes?.end();
    this.#detach.abort();
  }

  /** Writes the run down before anything of it exists, so that nothing of it can be lost. */
  #beginRun(run: ContainerRun): void {
    const { saved } = this.record;
    const before = saved.run;
    if (before?.exit) {
      const outdated = saved.previousLogPath;
      saved.lastTerminated = before.exit;
      saved.previousLogPath = before.logPath;
      if (outdated !== undefined) void this.#removeLog(outdated);
    }
    saved.run = run;
    saved.started = false;
    saved.ready = false;
    delete this.record.kill;
    this.#ended = new AbortController();
    this.#context.save();
  }

  async #removeLog(file: string): Promise<void> {
    try {
      await fs.rm(file, { force: true });
    } catch (error) {
      this.#context.logger.warn("Could not remove a log", { file, err: error });
    }
  }

  async #targetNamespace(): Promise<string | undefined> {
    const { targetContainer } = this.record.desired;
    if (targetContainer === undefined) return undefined;
    return await pidNamespaceOf(
      this.#context.runningId(targetContainer),
      this.#context.dependencies.runtime,
    );
  }

  async #startFailed(run: ContainerRun, error: unknown): Promise<void> {
    const { record } = this;
    const { events, clock, logger } = this.#context;
    const message = errorText(error);
    const { name } = record.desired;
    logger.warn("Could not start a container", { container: name, err: error });
    events.warning("Failed", `Error: ${message}`, name);
    if (hasCode(error, "CONTAINER_CREATE_FAILED", "CONTAINER_START_FAILED")) {
      const nowMs = clock.now();
      const exit = startErrorReport({ message, nowMs, containerId: this.#shownId(run) });
      record.waiting = { reason: "RunContainerError", message };
      this.#runEnded({ ...run, exit }, nowMs);
    } else {
      const isConfig = hasCode(
        error,
        "AGENT_CONTAINER_CONFIG",
        "AGENT_PATH_UNSAFE",
        "IMAGE_USER_UNKNOWN",
      );
      const reason = isConfig ? "CreateContainerConfigError" : "CreateContainerError";
      record.waiting = { reason, message };
      record.createFailures += 1;
      record.retryAtMs = clock.now() + failureDelayMs(record.createFailures);
    }
    await this.#discard(run);
  }

  #runEnded(run: ContainerRun, nowMs: number): void {
    const { record } = this;
    const { events, pod } = this.#context;
    record.saved.run = run;
    record.saved.ready = false;
    record.saved.started = false;
    const { name } = record.desired;
    if (this.#context.isRestarted(record)) {
      const delayMs = crashDelayMs(record, nowMs);
      record.retryAtMs = nowMs + delayMs;
      if (delayMs > 0) {
        const where = `${name} in pod ${pod.name}_${pod.namespace}(${pod.uid})`;
        events.warning("BackOff", `Back-off restarting failed container ${where}`, name);
        const target = `container=${name} pod=${pod.name}_${pod.namespace}(${pod.uid})`;
        const message = `back-off ${goDuration(delayMs)} restarting failed ${target}`;
        record.waiting = { reason: "CrashLoopBackOff", message };
      }
    } else delete record.waiting;
    this.#context.logger.info("Container ended", { container: name, exitCode: run.exit?.exitCode });
    this.#context.save();
    this.#context.changed();
  }

  #watch(): void {
    const { record } = this;
    const { run } = record.saved;
    if (!run || !isRunning(record)) return;
    const { events, clock } = this.#context;
    const changed = (): void => this.#context.changed();
    this.#probes = startProbes({
      container: record.desired,
      target: this.#target(run),
      startedAtMs: run.startedAtMs ?? clock.now(),
      isStarted: record.saved.started,
      events,
      clock,
      listener: {
        started: () => {
          record.saved.started = true;
          changed();
        },
        ready: (isReady) => {
          record.saved.ready = isReady;
          changed();
        },
        probed: (kind, isSuccess) => {
          const counts = record.probes.get(kind) ?? { successful: 0, failed: 0 };
          counts[isSuccess ? "successful" : "failed"]++;
          record.probes.set(kind, counts);
          if (!isSuccess) changed(); // there is an event
        },
        failed: (message, graceSeconds) => {
          record.kill = { message, graceSeconds };
          changed();
        },
      },
    });
  }

  /** Runs the hook, if there is one; false if it failed and the container is to be killed. */
  async #postStart(): Promise<boolean> {
    const { record } = this;
    const { postStart, name } = record.desired;
    const { run } = record.saved;
    if (!postStart || !run) return true;
    const over = AbortSignal.any([this.#ended.signal, this.#context.ending]);
    const result = await runHook(postStart, this.#target(run), over);
    if (result.isSuccess || over.aborted) return true;
    this.#context.events.warning("FailedPostStartHook", "PostStartHook failed", name);
    record.kill = { message: "FailedPostStartHook" };
    return false;
  }

  async #lastWords(run: ContainerRun, exitCode: number): Promise<string | undefined> {
    const { dependencies, directories, logger } = this.#context;
    const { terminationFile } = runDirectory(directories, run);
    const container = this.record.desired;
    try {
      const { runtime } = dependencies;
      return await terminationMessage({ ...run, container, exitCode, terminationFile, runtime });
    } catch (error) {
      logger.warn("Could not read a termination message", {
        container: container.name,
        err: error,
      });
      return undefined;
    }
  }

  async #discard(run: ContainerRun): Promise<void> {
    const { directories, dependencies, logger } = this.#context;
    try {
      await discardRun(run, { directories, dependencies });
    } catch (error) {
      logger.error("Could not remove a container", {
        container: this.record.desired.name,
        err: error,
      });
    }
  }

  #shownId(run: ContainerRun): string {
    return shownId(this.#context.pod.uid, this.record.desired.name, run.attempt);
  }

  #target(run: ContainerRun): CheckTarget {
    const { dependencies, pod } = this.#context;
    return { runtime: dependencies.runtime, containerId: run.id, address: podAddress(pod) };
  }
}
