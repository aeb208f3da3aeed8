// A complete provider: each container is a process of this machine, run by its command. What is left out:
// restarts, probes, init containers, volumes and isolation. Processes end with the node's own process.
import { spawn, type ChildProcess } from "node:child_process";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import {
  containerStatus,
  KipError,
  podConditions,
  wireTime,
  type LogOptions,
  type NodeFacts,
  type Pod,
  type PodProvider,
  type PodStatus,
  type ProcessExit,
  type ProcessStreams,
  type ProviderCallbacks,
  type ProviderSetup,
  type ResolvedPod,
} from "@kip/virtual-kubelet";

interface Process {
  readonly child: ChildProcess;
  readonly startedAt: string;
  readonly log: Buffer[];
  readonly env: Readonly<Record<string, string>>;
  ended?: { readonly exitCode: number; readonly finishedAt: string };
}

interface Entry {
  readonly pod: Pod;
  readonly processes: ReadonlyMap<string, Process>;
}

/** What `--provider` loads. */
export function createProvider(setup: ProviderSetup): PodProvider {
  return new ProcessProvider(setup.internalIp);
}

class ProcessProvider implements PodProvider {
  readonly #ip: string;
  readonly #entries = new Map<string, Entry>();
  #callbacks: ProviderCallbacks | undefined;

  constructor(ip: string) {
    this.#ip = ip;
  }

  async start(callbacks: ProviderCallbacks): Promise<void> {
    this.#callbacks = callbacks;
  }

  async apply({ pod, env }: ResolvedPod): Promise<void> {
    const uid = pod.metadata?.uid ?? "";
    if (this.#entries.has(uid)) return; // running processes cannot be changed
    const processes = new Map<string, Process>();
    for (const { name, command = [], args = [] } of pod.spec?.containers ?? []) {
      const [program, ...rest] = [...command, ...args];
      if (program === undefined)
        throw new KipError("VK_INVALID_POD", `Cannot run container "${name}": it has no command`);
      const values = Object.fromEntries(
        (env.get(name) ?? []).map((each) => [each.name, each.value]),
      );
      processes.set(name, this.#spawn(uid, program, rest, { PATH: "/usr/bin:/bin", ...values }));
    }
    this.#entries.set(uid, { pod, processes });
    this.#report(uid);
  }

  async remove(pod: Pod, graceSeconds: number): Promise<void> {
    const uid = pod.metadata?.uid ?? "";
    const running = [...this.#processes(uid)].filter(({ ended }) => !ended);
    const gone = running.map(({ child }) => new Promise((resolve) => child.once("close", resolve)));
    for (const { child } of running) child.kill("SIGTERM");
    const late = setTimeout(() => {
      for (const { child } of running) child.kill("SIGKILL");
    }, graceSeconds * 1000);
    await Promise.all(gone);
    clearTimeout(late);
    this.#report(uid);
    this.#entries.delete(uid);
  }

  async removeUnknown(uid: string): Promise<void> {
    for (const { child } of this.#processes(uid)) child.kill("SIGKILL");
    this.#entries.delete(uid);
  }

  async presence(uid: string): Promise<"present" | "absent"> {
    return this.#entries.has(uid) ? "present" : "absent";
  }

  async list(): Promise<{ uid: string; namespace: string; name: string }[]> {
    return [...this.#entries].map(([uid, { pod }]) => ({
      uid,
      namespace: pod.metadata?.namespace ?? "",
      name: pod.metadata?.name ?? "",
    }));
  }

  async nodeFacts(): Promise<NodeFacts> {
    return { capacity: { cpu: "2", memory: "4Gi", pods: "20" }, internalIp: this.#ip };
  }

  async ping(): Promise<void> {}

  async logs(
    pod: Pod,
    container: string,
    options: LogOptions,
    signal: AbortSignal,
  ): Promise<Readable> {
    const { log, child, ended } = this.#find(pod, container);
    const output = new PassThrough();
    for (const chunk of log) output.write(chunk);
    if (!options.follow || ended) return output.end();
    const add = (chunk: Buffer): void => void output.write(chunk);
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", add);
    child.once("close", () => output.end());
    signal.addEventListener("abort", () => output.end(), { once: true });
    return output;
  }

  async exec(
    pod: Pod,
    container: string,
    command: readonly string[],
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ProcessExit> {
    const { env } = this.#find(pod, container);
    const [program = "", ...args] = command;
    const child = spawn(program, args, { env, signal });
    const ended = new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => resolve(code ?? 137));
    });
    if (streams.stdin)
      pipeline(streams.stdin, child.stdin).catch(() => {}); // it may end unread
    else child.stdin.end();
    const copies = [
      streams.stdout && pipeline(child.stdout, streams.stdout),
      streams.stderr && pipeline(child.stderr, streams.stderr),
    ];
    const [exitCode] = await Promise.all([ended, ...copies]);
    return { exitCode };
  }

  #spawn(uid: string, program: string, args: string[], env: Record<string, string>): Process {
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    const process: Process = { child, startedAt: wireTime(Date.now()), log: [], env };
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => process.log.push(chunk));
    child.on("error", (error) => process.log.push(Buffer.from(`${error.message}\n`)));
    child.once("close", (code) => {
      process.ended = { exitCode: code ?? 137, finishedAt: wireTime(Date.now()) };
      this.#report(uid);
    });
    return process;
  }

  #report(uid: string): void {
    const entry = this.#entries.get(uid);
    if (entry) this.#callbacks?.podStatus({ uid, status: this.#status(entry) });
  }

  #status({ pod, processes }: Entry): PodStatus {
    const all = [...processes.values()];
    const isDone = all.every(({ ended }) => ended);
    const hasFailed = all.some(({ ended }) => ended && ended.exitCode !== 0);
    const phase = !isDone ? "Running" : hasFailed ? "Failed" : "Succeeded";
    const containerStatuses = (pod.spec?.containers ?? []).map((container) => {
      const { startedAt = "", ended } = processes.get(container.name) ?? {};
      const state = ended ? { terminated: { startedAt, ...ended } } : { running: { startedAt } };
      return containerStatus(container, state, { ready: !ended });
    });
    const ips = { podIP: this.#ip, podIPs: [{ ip: this.#ip }], hostIP: this.#ip };
    const status = { phase, containerStatuses, startTime: all[0]?.startedAt ?? "", ...ips };
    return { ...status, conditions: podConditions(pod, { ...status, now: wireTime(Date.now()) }) };
  }

  #processes(uid: string): Iterable<Process> {
    return this.#entries.get(uid)?.processes.values() ?? [];
  }

  #find(pod: Pod, container: string): Process {
    const found = this.#entries.get(pod.metadata?.uid ?? "")?.processes.get(container);
    if (found) return found;
    throw new KipError(
      "VK_NOT_FOUND",
      `Cannot find container "${container}": it does not run here`,
    );
  }
}
