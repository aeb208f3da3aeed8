// A complete provider: each container is a process of this machine, run by its command. What is left out:
// restarts, probes, init containers, volumes and isolation. Processes end with the node's own process.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  connectPort,
  connectProcess,
  ContainerLog,
  PodTable,
  podStatus,
  type ContainerRun,
  type Pod,
  type PodProvider,
  type ProviderCallbacks,
  type ProviderSetup,
  VirtualKubeletError,
} from "@kip/virtual-kubelet";

interface Process extends ContainerRun {
  readonly child: ChildProcess;
  readonly log: ContainerLog;
  readonly env: Readonly<Record<string, string>>;
  ended?: { readonly exitCode: number; readonly finishedAtMs: number };
}

/** What `--provider` loads. */
export function createProvider({ clock, internalIp: ip }: ProviderSetup): PodProvider {
  const table = new PodTable<Map<string, Process>>();
  let callbacks: ProviderCallbacks | undefined;

  function report(pod: Pod): void {
    const [runs, uid] = [table.get(pod), pod.metadata.uid];
    if (!runs) return; // it was removed
    const status = podStatus(pod, { runs, podIp: ip, hostIp: ip, nowMs: clock.now() });
    callbacks?.podStatus({ uid, status });
  }

  function start(pod: Pod, command: readonly string[], env: Process["env"]): Process {
    const child = spawn(command[0] ?? "", command.slice(1), {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const log = new ContainerLog({ clock });
    const run: Process = { child, log, env, startedAtMs: clock.now() };
    child.stdout.on("data", (chunk: Buffer) => log.write("Stdout", chunk));
    child.stderr.on("data", (chunk: Buffer) => log.write("Stderr", chunk));
    child.on("error", ({ message }) => log.write("Stderr", `${message}\n`));
    child.once("close", (code) => {
      run.ended = { exitCode: code ?? 137, finishedAtMs: clock.now() };
      log.end();
      report(pod);
    });
    return run;
  }

  const running = (pod: Pod | string): readonly Process[] =>
    [...(table.get(pod)?.values() ?? [])].filter(({ ended }) => !ended);

  function find(pod: Pod, container: string): Process {
    const found = table.get(pod)?.get(container);
    if (found) return found;
    throw new VirtualKubeletError(
      "VK_NOT_FOUND",
      `Cannot find container "${container}": it is not here`,
    );
  }

  return {
    async start(given) {
      callbacks = given;
    },
    async apply({ pod, env }) {
      if (table.get(pod)) return; // running processes cannot be changed
      const runs = new Map<string, Process>();
      const commands = (pod.spec.containers ?? []).map(({ name, command = [], args = [] }) => {
        if (command.length > 0) return { name, words: [...command, ...args] };
        throw new VirtualKubeletError(
          "VK_INVALID_POD",
          `Cannot run container "${name}": it has no command`,
        );
      });
      for (const { name, words } of commands) {
        const given = (env.get(name) ?? []).map((each) => [each.name, each.value] as const);
        runs.set(name, start(pod, words, { PATH: "/usr/bin:/bin", ...Object.fromEntries(given) }));
      }
      table.set(pod, runs);
      report(pod);
    },
    async remove(pod, graceSeconds) {
      const left = running(pod);
      const gone = left.map(({ child }) => once(child, "close"));
      for (const { child } of left) child.kill("SIGTERM");
      const late = setTimeout(() => {
        for (const { child } of left) child.kill("SIGKILL");
      }, graceSeconds * 1000);
      await Promise.all(gone);
      clearTimeout(late);
      table.delete(pod);
    },
    async removeUnknown(uid) {
      for (const { child } of running(uid)) child.kill("SIGKILL");
      table.delete(uid);
    },
    presence: async (uid) => table.presence(uid),
    list: async () => table.list(),
    nodeFacts: async () => ({ capacity: { cpu: "2", memory: "4Gi", pods: "20" }, internalIp: ip }),
    async ping() {},
    hasLogStreams: true,
    logs: async (pod, name, options, signal) => find(pod, name).log.read(options, signal),
    async exec(pod, container, [program = "", ...args], streams, signal) {
      const { env } = find(pod, container);
      return connectProcess(spawn(program, args, { env, signal }), streams);
    },
    portForward: async (_pod, port, connection, signal) =>
      connectPort({ host: "127.0.0.1", port }, connection, signal),
  };
}
