import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import {
  errorText,
  runCommand,
  withTimeout,
  type Clock,
  type CommandResult,
  type Logger,
  type ProcessStreams,
} from "@kip/base";
import { attachProcess } from "../exec/attach-process.ts";
import { buildSpec, containerCgroup } from "../bundle/build-spec.ts";
import { machineDevices } from "../bundle/machine-devices.ts";
import { readMachineFacts, type MachineFacts } from "../bundle/machine-facts.ts";
import { resolveMounts } from "../bundle/mount-places.ts";
import type {
  ContainerExit,
  ContainerRuntime,
  ContainerState,
  ContainerStats,
  ExecOptions,
  ExecResult,
} from "../contract/container-runtime.ts";
import type { CgroupUsage } from "../contract/cgroup-usage.ts";
import type { ContainerResources, ContainerSpec } from "../contract/container-spec.ts";
import type { PodSandbox } from "../contract/pod-sandbox.ts";
import { RuntimeError } from "../errors.ts";
import { execProcess, execSpec } from "../exec/exec-process.ts";
import { ExecTurns } from "../exec/exec-turns.ts";
import { NamedPipes } from "../exec/named-pipes.ts";
import { isInOurPidNamespace } from "../exec/wait-for-process.ts";
import { KeptLogs } from "../logs/kept-logs.ts";
import { defaultLogLimits } from "../logs/log-limits.ts";
import { limitCgroup, makeCgroup, memoryUsage } from "../limits/cgroup-limits.ts";
import { readLog, type LogReadOptions } from "../logs/read-log.ts";
import { containerPaths, isContainerId, notFound, runPaths, type RunPaths } from "../run-paths.ts";
import { Monitor, runtimeArguments, type ConmonOptions } from "../spawn/conmon.ts";
import { protectCrun, type CrunProgram } from "../spawn/crun-program.ts";
import { releaseContainer } from "../spawn/release-container.ts";
import { makeMonitorCgroup, monitorCgroupProcs } from "../spawn/monitor-cgroup.ts";
import { MonitorWatch } from "../spawn/monitor-watch.ts";
import { WaitingMonitor } from "../spawn/waiting-monitor.ts";
import { readLivePid, readProcess, readRecord, writeRecord } from "../state/container-record.ts";
import { limitProcesses, processLimit } from "../sandbox/process-limit.ts";
import { ExitWatcher, readExit, writeLostExit } from "../state/exit-watcher.ts";
import { hasMonitor, readState } from "../state/read-state.ts";
import { readCgroupUsage } from "../stats/cgroup.ts";

/** Options of {@link createRuntime}. */
export interface RuntimeOptions {
  /**
   * Directory for all state, created if missing. It must be on tmpfs, because it must not survive a reboot, and because bundles
   * contain secrets.
   */
  readonly runDir: string;
  /** @default "/usr/bin/crun" */
  readonly crun?: string | undefined;
  /** @default "/usr/bin/conmon" */
  readonly conmon?: string | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** How long a killed container may take to end, milliseconds. It only takes longer if the kernel is stuck in I/O. */
const killLimitMs = 30_000;

/** Starts the runtime. Takes over existing containers of earlier runs. */
export async function createRuntime(options: RuntimeOptions): Promise<ContainerRuntime> {
  const paths = runPaths(options.runDir);
  for (const folder of Object.values(paths)) await mkdir(folder, { recursive: true, mode: 0o700 });
  await rm(paths.execs, { recursive: true });
  await mkdir(paths.execs, { mode: 0o700 });
  const [crun, machine, exits, hasCgroup] = await Promise.all([
    protectCrun(options.crun ?? "/usr/bin/crun", paths.programs, options.logger),
    readMachineFacts(),
    ExitWatcher.open(paths, options.logger),
    makeMonitorCgroup(),
  ]);
  const runtime = new CrunRuntime(options, { paths, crun, machine, exits, hasCgroup });
  await runtime.takeOver();
  return runtime;
}

/** The resources that {@link createRuntime} has found and created. */
interface RuntimeResources {
  readonly paths: RunPaths;
  readonly crun: CrunProgram;
  readonly machine: MachineFacts;
  readonly exits: ExitWatcher;
  readonly hasCgroup: boolean;
}

class CrunRuntime implements ContainerRuntime {
  readonly #crun: CrunProgram;
  readonly #conmon: string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #paths: RunPaths;
  readonly #machine: MachineFacts;
  readonly #exits: ExitWatcher;
  readonly #pipes: NamedPipes;
  readonly #monitorCgroup: string | undefined;
  readonly #logs: KeptLogs;
  readonly #monitors: MonitorWatch;
  readonly #turns: ExecTurns;
  #execs = 0;
  #waiting: WaitingMonitor | undefined;
  #isIdTaken = false;

  constructor(options: RuntimeOptions, resources: RuntimeResources) {
    const { paths, crun, machine, exits, hasCgroup } = resources;
    this.#crun = crun;
    this.#conmon = options.conmon ?? "/usr/bin/conmon";
    this.#logger = options.logger;
    this.#clock = options.clock;
    this.#paths = paths;
    this.#machine = machine;
    this.#exits = exits;
    this.#pipes = new NamedPipes(paths.pipes);
    this.#monitorCgroup = hasCgroup ? monitorCgroupProcs : undefined;
    this.#logs = new KeptLogs(options);
    this.#monitors = new MonitorWatch(options, async (id) => await this.#checkedState(id));
    this.#turns = new ExecTurns(options.clock);
    exits.subscribe(({ id }) => {
      this.#monitors.release(id);
      void this.#logs.release(id);
    });
  }

  async prepare(logs: string): Promise<void> {
    this.#waiting ??= await WaitingMonitor.begin(logs, this.#monitorOptions());
  }

  takePreparedId(): string | undefined {
    const id = this.#isIdTaken ? undefined : this.#waiting?.id;
    this.#isIdTaken = true;
    return id;
  }

  async create(spec: ContainerSpec): Promise<void> {
    const files = containerPaths(this.#paths, spec.id);
    // Read for each container, because disks are added and removed.
    const devices = spec.privileged === true ? await machineDevices() : [];
    const mounts = resolveMounts(spec.rootfs, spec.mounts);
    const { logLimits: limits = defaultLogLimits, logDirectory: directory } = spec;
    const config = buildSpec({ ...spec, mounts }, this.#machine, devices);
    // These are small files on tmpfs, so synchronous writes are faster than the thread pool.
    const waiting = this.#takeWaiting(spec);
    mkdirSync(spec.logDirectory, { recursive: true });
    // Fails for a second container with the same ID, before any file of the first one is changed.
    if (!waiting) mkdirSync(files.bundle, { mode: 0o700 });
    try {
      writeFileSync(files.config, JSON.stringify(config), { mode: 0o600 });
      const monitor =
        waiting?.take(spec.logDirectory) ??
        (await Monitor.start({ ...spec, files, limits }, this.#monitorOptions()));
      await monitor.createContainer();
      // Before any of the pod's processes starts.
      if (!limitProcesses(spec.sandbox.cgroupParent, processLimit()))
        this.#logger.debug("Could not limit the pod's processes", { container: spec.id });
      writeRecord(files, {
        id: spec.id,
        labels: spec.labels ?? {},
        logDirectory: spec.logDirectory,
        maxLogFiles: limits.maxFiles,
        maxLogFileBytes: limits.maxFileBytes,
        cgroup: containerCgroup(spec),
        tty: spec.tty,
        stdin: spec.stdin,
        createdAtMs: this.#clock.now(),
      });
      this.#logs.keep(spec.id, { directory, limits, control: files.control });
      this.#monitors.keep(spec.id, files.control);
    } catch (error) {
      await this.remove(spec.id);
      throw error;
    }
  }

  async start(id: string): Promise<void> {
    const files = containerPaths(this.#paths, id);
    if (!existsSync(files.record)) throw notFound(id);
    // Written first, because the process may end before crun does. Its time is the time at which the start began.
    writeFileSync(files.started, "");
    try {
      if (!releaseContainer(this.#paths.crunRoot, id)) await this.#runCrun("start", id);
    } catch (error) {
      await rm(files.started, { force: true });
      throw new RuntimeError(
        "CONTAINER_START_FAILED",
        `Cannot start container "${id}": ${errorText(error)}`,
        { cause: error, remedy: "Remove the container and create it again." },
      );
    }
  }

  async kill(id: string, signal: string, all = false): Promise<void> {
    const state = await this.#state(id);
    if (state.exit) return;
    try {
      await this.#runCrun("kill", ...(all ? ["--all"] : []), id, signal);
    } catch (error) {
      // It may have ended in the meantime, before conmon has recorded that.
      const after = await this.#state(id);
      if (after.exit ?? after.pid === undefined) return;
      throw error;
    }
  }

  async remove(id: string): Promise<void> {
    const files = containerPaths(this.#paths, id);
    this.#monitors.release(id);
    await this.#logs.release(id);
    // Removes whatever exists, with or without a record, whether crun knows the container or not.
    const state = await readState(this.#paths, id);
    if (state && !state.exit) await this.#killAndWait(id);
    await this.#deleteFromCrun(id);
    await rm(files.bundle, { recursive: true, force: true, maxRetries: 3 });
    await rm(files.exit, { force: true });
    this.#exits.forget(id);
  }

  async list(): Promise<readonly ContainerState[]> {
    const names = (await readdir(this.#paths.containers)).filter(isContainerId);
    const states = await Promise.all(names.map(async (name) => await this.#checkedState(name)));
    return states.filter((state) => state !== undefined);
  }

  onExit(callback: (exit: ContainerExit) => void): () => void {
    return this.#exits.subscribe(callback);
  }

  async exec(
    id: string,
    options: ExecOptions,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ExecResult> {
    const files = containerPaths(this.#paths, id);
    const process = execSpec(await readProcess(files, id), options, streams.tty);
    const context = {
      crun: this.#crun,
      paths: this.#paths,
      pipes: this.#pipes,
      name: String(++this.#execs),
      leavesOrphans: await isInOurPidNamespace(await readLivePid(files.pid)),
      turns: options.isUrgent === true ? undefined : this.#turns,
      onBegun: options.onBegun,
    };
    const result = await execProcess(id, process, streams, signal, context);
    this.#pipes.prepare();
    return result;
  }

  async attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<ExecResult> {
    const files = containerPaths(this.#paths, id);
    const record = await readRecord(files, id);
    if (await readExit(this.#paths, id))
      throw new RuntimeError("EXEC_FAILED", `Cannot attach to container "${id}": it has ended`, {
        execFailure: "not-running",
      });
    const ended = this.#exits.ended(id, signal);
    await attachProcess(record, files, streams, ended, signal);
    return { exitCode: (await ended)?.exitCode ?? 255 };
  }

  logs(id: string, logDirectory: string, options: LogReadOptions, signal: AbortSignal): Readable {
    const ended = options.follow ? this.#exits.ended(id, signal) : Promise.resolve();
    ended.catch(() => {}); // an abort, which the reader notices on its own
    return readLog(logDirectory, options, ended, signal);
  }

  async stats(id: string): Promise<ContainerStats> {
    const files = containerPaths(this.#paths, id);
    const { cgroup } = await readRecord(files, id);
    return { ...readCgroupUsage(cgroup), pid: await readLivePid(files.pid) };
  }

  podStats({ cgroupParent }: Pick<PodSandbox, "cgroupParent">): CgroupUsage | undefined {
    try {
      return readCgroupUsage(cgroupParent);
    } catch {
      return undefined;
    }
  }

  async resize(id: string, resources: ContainerResources): Promise<void> {
    const { cgroup } = await readRecord(containerPaths(this.#paths, id), id);
    setLimits(`container "${id}"`, () => limitCgroup(cgroup, resources));
  }

  limitPod(
    { cgroupParent }: Pick<PodSandbox, "cgroupParent">,
    resources: ContainerResources,
  ): void {
    setLimits("the pod", () => {
      makeCgroup(cgroupParent);
      limitCgroup(cgroupParent, resources);
    });
  }

  podMemoryUsage({ cgroupParent }: Pick<PodSandbox, "cgroupParent">): number | undefined {
    return memoryUsage(cgroupParent);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#waiting?.abandon();
    await this.#monitors[Symbol.asyncDispose]();
    await this.#logs[Symbol.asyncDispose]();
    this.#exits[Symbol.dispose]();
    await rm(this.#paths.pipes, { recursive: true, force: true });
  }

  /** Repairs the state after an agent was killed in the middle of an operation. */
  async takeOver(): Promise<void> {
    for (const id of (await readdir(this.#paths.containers)).filter(isContainerId)) {
      const state = await readState(this.#paths, id);
      if (!state) await this.remove(id);
      else if (!state.exit) {
        const files = containerPaths(this.#paths, id);
        const {
          logDirectory: directory,
          maxLogFiles,
          maxLogFileBytes,
        } = await readRecord(files, id);
        const limits = { maxFiles: maxLogFiles, maxFileBytes: maxLogFileBytes };
        this.#logs.keep(id, { directory, limits, control: files.control });
        this.#monitors.keep(id, files.control);
        if (state.status === "running") await this.#checkStarted(id);
      }
    }
  }

  /** `start` records the start before it happens. If crun does not know the container, the start has not happened. */
  async #checkStarted(id: string): Promise<void> {
    const { stdout } = await this.#runCrun("state", id).catch(() => ({ stdout: "" }));
    if (!/"status":\s*"created"/.test(stdout)) return;
    await rm(containerPaths(this.#paths, id).started, { force: true });
  }

  /** The prepared monitor for this container. A monitor that does not fit is ended. */
  #takeWaiting(spec: ContainerSpec): WaitingMonitor | undefined {
    if (this.#waiting?.id !== spec.id) return undefined;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting.fits(spec)) return waiting;
    waiting.abandon();
    return undefined;
  }

  #monitorOptions(): ConmonOptions {
    return {
      conmon: this.#conmon,
      crun: this.#crun,
      paths: this.#paths,
      monitorCgroup: this.#monitorCgroup,
      logger: this.#logger,
      clock: this.#clock,
    };
  }

  async #state(id: string): Promise<ContainerState> {
    const state = await readState(this.#paths, id);
    if (!state) throw notFound(id);
    return state;
  }

  /** The state of a container. A container without a monitor is ended and counts as lost. */
  async #checkedState(id: string): Promise<ContainerState | undefined> {
    const state = await readState(this.#paths, id);
    if (!state || state.exit || (await hasMonitor(containerPaths(this.#paths, id)))) return state;
    // The monitor may have recorded the end and exited between the two checks.
    const again = await readState(this.#paths, id);
    if (!again || again.exit) return again;
    this.#logger.warn("Ended a container whose monitor was gone", { container: id });
    await this.#runCrun("kill", "--all", id, "KILL").catch(() => {}); // most likely it is gone too
    await writeLostExit(this.#paths, id);
    return await readState(this.#paths, id);
  }

  async #killAndWait(id: string): Promise<void> {
    const stop = new AbortController();
    const ended = this.#exits.ended(id, stop.signal);
    ended.catch(() => {}); // stopped below
    try {
      await this.kill(id, "SIGKILL", true);
      if (!(await hasMonitor(containerPaths(this.#paths, id)))) return;
      const limit = { limitMs: killLimitMs, clock: this.#clock };
      await withTimeout(async () => await ended, limit).catch((err: unknown) => {
        this.#logger.warn("Could not see the end of a killed container in time", {
          container: id,
          err,
        });
      });
    } finally {
      stop.abort();
    }
  }

  async #deleteFromCrun(id: string): Promise<void> {
    try {
      await this.#runCrun("delete", "--force", id);
    } catch (error) {
      // crun does not know it, because its creation failed or it was already deleted. Nothing is left to do.
      if (!/does not exist|No such file/i.test(errorText(error))) throw error;
    }
  }

  async #runCrun(...args: readonly string[]): Promise<CommandResult> {
    return await runCommand(this.#crun.path, [...runtimeArguments(this.#paths), ...args], {
      env: this.#crun.env,
      timeoutMs: killLimitMs,
    });
  }
}

/** @throws {RuntimeError} `CONTAINER_RESIZE_FAILED` */
function setLimits(what: string, set: () => void): void {
  try {
    set();
  } catch (error) {
    throw new RuntimeError("CONTAINER_RESIZE_FAILED", `Cannot limit ${what}: ${errorText(error)}`, {
      cause: error,
      retryable: true,
    });
  }
}
