import fs from "node:fs/promises";
import type { DesiredPod } from "@kip/agent-api";
import { errorText, hasCode, isKipError, type Clock, type Logger } from "@kip/base";
import type { ContainerExit, ContainerState } from "@kip/oci-runtime";
import type { AgentDirectories } from "../agent-directories.ts";
import type { AgentParts } from "../agent-parts.ts";
import { startProbes, type RunningProbes } from "../checks/container-probes.ts";
import { podAddress, runHook, type CheckTarget } from "../checks/handlers.ts";
import { goDuration } from "../go-duration.ts";
import { obtainImage } from "../image/obtain-image.ts";
import {
  isRunning,
  nextAttempt,
  type ContainerRecord,
  type ContainerRun,
} from "../pod/container-record.ts";
import { crashDelayMs, failureDelayMs } from "../pod/crash-backoff.ts";
import type { Step } from "../pod/plan.ts";
import type { PodEvents } from "../pod/pod-events.ts";
import { shownId } from "./container-spec.ts";
import { exitReport, startErrorReport } from "./exit-report.ts";
import type { GracePeriod } from "./grace-period.ts";
import {
  createContainer,
  describeRun,
  discardRun,
  hasFiles,
  pidNamespaceOf,
  runDirectory,
  type PodGround,
} from "./start-container.ts";
import { stopContainer } from "./stop-container.ts";
import { terminationMessage } from "./termination-message.ts";

/** What a keeper needs of the pod it belongs to. */
export interface KeeperHost {
  readonly pod: DesiredPod;
  readonly ground: PodGround;
  readonly parts: AgentParts;
  readonly directories: AgentDirectories;
  readonly events: PodEvents;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborts when the pod is to end. */
  readonly ending: AbortSignal;
  /** ID of a running container of the pod. @throws {KipError} if it does not run */
  runningId(name: string): string;
  /** Whether a container that has ended is to be started again. */
  isRestarted(record: ContainerRecord): boolean;
  /** An image of the container's first start is there. */
  imageReady(timingsMs: { readonly pull: number; readonly unpack: number } | undefined): void;
  /** Something changed: plan again, and tell kip. */
  changed(): void;
  /** Writes the state down now, before something is done that relies on it. */
  save(): void;
}

/** For how long a failed pull shows its error before it shows that it is held back, milliseconds. */
const errorShownMs = 1000;

/** After how long a container that could not be stopped is stopped again, milliseconds. */
const stopAgainMs = 1000;

/** Why a container is stopped, as the plan has it. */
type StopReason = Pick<Extract<Step, { do: "stop" }>, "message" | "restarts">;

/** Carries out the steps of one container and notes in its record what became of them. */
export class ContainerKeeper {
  readonly record: ContainerRecord;
  readonly #host: KeeperHost;
  #ended = new AbortController();
  readonly #letGo = new AbortController();
  #probes: RunningProbes | undefined;
  /** Settles when the end of the run, if it has come, is in the record. */
  #exitNoted: Promise<void> = Promise.resolve();

  constructor(record: ContainerRecord, host: KeeperHost) {
    this.record = record;
    this.#host = host;
  }

  /** Gets the image. */
  async pull(): Promise<void> {
    const { record } = this;
    const { events, clock, parts, pod, ending } = this.#host;
    const attempt = nextAttempt(record);
    const failures = record.image.is === "failed" ? record.image.failures : 0;
    record.image = { is: "pulling" };
    try {
      const { images, cacheFolder } = parts;
      const obtained = await obtainImage(record.desired, {
        pod,
        images,
        cacheFolder,
        events,
        clock,
        signal: ending,
      });
      record.image = { is: "ready", image: obtained.image, attempt };
      if (failures > 0) delete record.waiting;
      this.#host.imageReady(obtained.timingsMs);
    } catch (error) {
      if (ending.aborted) return;
      const reason = isKipError(error) ? String(error.facts["reason"]) : "ErrImagePull";
      const message = errorText(error);
      const failedAtMs = clock.now();
      const retryAtMs = failedAtMs + failureDelayMs(failures + 1);
      record.image = {
        is: "failed",
        reason,
        message,
        failures: failures + 1,
        retryAtMs,
        ...(reason === "ErrImagePull" && { holdAtMs: failedAtMs + errorShownMs }),
      };
      events.warning("Failed", `Error: ${reason}`, record.desired.name);
      record.waiting = { reason, message };
    } finally {
      this.#host.changed();
    }
  }

  /** Shows that the next pull is being held back, as the kubelet does when it next looks at the pod. */
  async hold(): Promise<void> {
    const { record } = this;
    const { image } = record;
    if (image.is !== "failed") return;
    const { holdAtMs: _, ...held } = image;
    record.image = held;
    const { name, image: imageName } = record.desired;
    const message = `Back-off pulling image "${imageName}"`;
    this.#host.events.normal("BackOff", message, name);
    this.#host.events.warning("Failed", "Error: ImagePullBackOff", name);
    record.waiting = {
      reason: "ImagePullBackOff",
      message: `${message}: ${image.reason}: ${image.message}`,
    };
    await Promise.resolve();
  }

  /** Makes the container and starts it; resolves after its postStart hook. */
  async start(): Promise<void> {
    const { record } = this;
    const { parts, events, directories, clock, pod, ground } = this.#host;
    const { desired, saved, image: imageState } = record;
    if (imageState.is !== "ready") return;
    record.activity = "starting";
    const attempt = nextAttempt(record);
    const input = {
      pod,
      container: desired,
      image: imageState.image,
      attempt,
      ground,
      directories,
      parts,
    };
    const isPlain = desired.tty !== true && desired.stdin !== true;
    // A run that is made again keeps its ID.
    const preparedId = isPlain && !saved.run ? parts.runtime.takePreparedId() : undefined;
    const run = describeRun(input, preparedId);
    const isRepeated = saved.run?.id === run.id;
    this.#beginRun(run);
    try {
      // Not always: it costs the start of a program, which a first start can do without.
      if (isRepeated) await discardRun(run, { directories, parts });
      await createContainer(run, { ...input, pidNamespace: await this.#targetNamespace() });
      events.normal("Created", `Created container: ${desired.name}`, desired.name);
      await parts.runtime.start(run.id);
      saved.run = { startedAtMs: clock.now(), ...saved.run, ...run };
      record.createFailures = 0;
      // A process that ended at once has set what it waits for by now.
      if (isRunning(record)) delete record.waiting;
      events.normal("Started", `Started container ${desired.name}`, desired.name);
      this.#host.save();
      this.#host.changed();
      // Nothing takes the container for started or ready before.
      if (await this.#postStart()) this.#watch();
    } catch (error) {
      await this.#startFailed(run, error);
    } finally {
      delete record.activity;
      this.#host.changed();
    }
  }

  /** Ends the container. Its end itself comes by {@link ContainerKeeper.exited}. */
  async stop({ message, restarts }: StopReason, grace: GracePeriod): Promise<void> {
    const { record } = this;
    const { run } = record.saved;
    if (!run) return;
    const { parts, events, clock, logger } = this.#host;
    record.activity = "stopping";
    record.saved.run = { ...run, restarts };
    events.normal("Killing", message, record.desired.name);
    // It serves those who are connected until it has ended, and may say for how long.
    this.#probes?.endKilling();
    this.#host.changed();
    const ended = AbortSignal.any([this.#ended.signal, this.#letGo.signal]);
    try {
      const target = this.#target(run);
      await stopContainer(run, {
        container: record.desired,
        grace,
        ended,
        target,
        parts,
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
      this.#host.changed();
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
      if (state || hasFiles(this.#host.directories, run)) await this.#discard(run);
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
      const finishedAtMs = this.#host.clock.now();
      await this.exited({ id: run.id, exitCode: 255, oomKilled: false, finishedAtMs, lost: true });
    }
  }

  /** Ends what this object does; the container lives on. */
  letGo(): void {
    this.#probes?.end();
    this.#letGo.abort();
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
    this.#host.save();
  }

  async #removeLog(file: string): Promise<void> {
    try {
      await fs.rm(file, { force: true });
    } catch (error) {
      this.#host.logger.warn("Could not remove a log", { file, err: error });
    }
  }

  async #targetNamespace(): Promise<string | undefined> {
    const { targetContainer } = this.record.desired;
    if (targetContainer === undefined) return undefined;
    return await pidNamespaceOf(this.#host.runningId(targetContainer), this.#host.parts.runtime);
  }

  async #startFailed(run: ContainerRun, error: unknown): Promise<void> {
    const { record } = this;
    const { events, clock, logger } = this.#host;
    const message = errorText(error);
    const { name } = record.desired;
    logger.warn("Container could not be started", { container: name, err: error });
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
    const { events, pod } = this.#host;
    record.saved.run = run;
    record.saved.ready = false;
    record.saved.started = false;
    const { name } = record.desired;
    if (this.#host.isRestarted(record)) {
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
    this.#host.logger.info("Container ended", { container: name, exitCode: run.exit?.exitCode });
    this.#host.save();
    this.#host.changed();
  }

  #watch(): void {
    const { record } = this;
    const { run } = record.saved;
    if (!run || !isRunning(record)) return;
    const { events, clock } = this.#host;
    const changed = (): void => this.#host.changed();
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
    const over = AbortSignal.any([this.#ended.signal, this.#host.ending]);
    const result = await runHook(postStart, this.#target(run), over);
    if (result.isSuccess || over.aborted) return true;
    this.#host.events.warning("FailedPostStartHook", "PostStartHook failed", name);
    record.kill = { message: "FailedPostStartHook" };
    return false;
  }

  async #lastWords(run: ContainerRun, exitCode: number): Promise<string | undefined> {
    const { parts, directories, logger } = this.#host;
    const { terminationFile } = runDirectory(directories, run);
    const container = this.record.desired;
    try {
      const { runtime } = parts;
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
    const { directories, parts, logger } = this.#host;
    try {
      await discardRun(run, { directories, parts });
    } catch (error) {
      logger.error("Could not remove a container", {
        container: this.record.desired.name,
        err: error,
      });
    }
  }

  #shownId(run: ContainerRun): string {
    return shownId(this.#host.pod.uid, this.record.desired.name, run.attempt);
  }

  #target(run: ContainerRun): CheckTarget {
    const { parts, pod } = this.#host;
    return { runtime: parts.runtime, containerId: run.id, address: podAddress(pod) };
  }
}
