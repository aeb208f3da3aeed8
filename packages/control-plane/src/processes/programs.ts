import { join } from "node:path";
import type { ProgramName } from "../binaries/pinned-version.ts";
import type { ControlPlaneCertificates } from "../certificates/control-plane-certificates.ts";
import { writeWhole } from "../host/files.ts";
import { kubeconfigText } from "../kubeconfig/kubeconfig-file.ts";
import type { ResolvedOptions } from "../options/resolve-options.ts";
import { auditPolicy } from "./audit-policy.ts";
import {
  apiServerArgs,
  controllerManagerArgs,
  etcdArgs,
  schedulerArgs,
  type ProgramArgsInput,
} from "./program-args.ts";
import { endLeftover } from "../host/recorded-process.ts";
import { SupervisedProgram, type ProgramEnd } from "./supervised-program.ts";

/** The four programs, started together; disposing of them ends them. */
export interface Programs extends AsyncDisposable {
  /** Port of the API server. */
  readonly port: number;
  /** The first of them that ends. */
  readonly firstEnd: Promise<ProgramEnd>;
  readonly pids: Readonly<Partial<Record<ProgramName, number>>>;
  /**
   * Starts the scheduler and the controller manager, once the API is ready. Before that they are refused what they may
   * not yet read: the scheduler then waits longer and longer, and the controller manager ends after 10 s.
   */
  startClients(): void;
  /** Starts each again from now on whenever it ends. */
  supervise(onEnd: (program: ProgramName, end: ProgramEnd, restartInMs: number) => void): void;
}

/** How long each may take to end: requests under way may finish, watches are closed at once. */
const stopGraceMs = 5000;
const logLimitBytes = 16 * 1024 * 1024;
/** Nothing of the caller's: no proxy, no credentials, no Go settings. */
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/**
 * Starts etcd and the API server at once: the second waits for the first.
 *
 * @param choosePort called when nothing of an earlier start holds the port any longer
 */
export async function startPrograms(
  resolved: ResolvedOptions,
  certificates: ControlPlaneCertificates,
  choosePort: () => Promise<number>,
): Promise<Programs> {
  for (const name of [
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
  ] as const)
    await endLeftover(identityFile(name, resolved), resolved.clock);
  const port = await choosePort();
  const input = await writeInput({ resolved, certificates, port });
  const make = (name: ProgramName, args: readonly string[]): SupervisedProgram =>
    supervised(name, args, resolved);
  const programs = {
    etcd: make("etcd", etcdArgs()),
    "kube-apiserver": make("kube-apiserver", apiServerArgs(input)),
    "kube-controller-manager": make("kube-controller-manager", controllerManagerArgs(input)),
    "kube-scheduler": make("kube-scheduler", schedulerArgs(input)),
  };
  const firstEnd = Promise.withResolvers<ProgramEnd>();
  const start = (name: keyof typeof programs): void =>
    void programs[name].start().then(firstEnd.resolve);
  start("etcd");
  start("kube-apiserver");
  return {
    port,
    firstEnd: firstEnd.promise,
    startClients: () => {
      start("kube-controller-manager");
      start("kube-scheduler");
    },
    get pids() {
      const running = Object.entries(programs).filter(([, program]) => program.pid !== undefined);
      return Object.fromEntries(running.map(([name, program]) => [name, program.pid]));
    },
    supervise: (onEnd) => {
      for (const name of Object.keys(programs) as (keyof typeof programs)[])
        // our own object's
        programs[name].supervise((end, restartInMs) => onEnd(name, end, restartInMs));
    },
    // Clients of the API server end before it does, and it ends before etcd.
    [Symbol.asyncDispose]: async () => {
      const clients = [programs["kube-controller-manager"], programs["kube-scheduler"]];
      await Promise.all(clients.map(async (client) => await client.stop()));
      await programs["kube-apiserver"].stop();
      await programs.etcd.stop();
    },
  };
}

function supervised(
  name: ProgramName,
  args: readonly string[],
  resolved: ResolvedOptions,
): SupervisedProgram {
  const { binaries, logDir, etcdDir, environment, clock } = resolved;
  return new SupervisedProgram(
    {
      name,
      file: binaries.paths[name],
      args,
      env: { ...environment, PATH: path },
      directory: etcdDir,
      logFile: join(logDir, `${name}.log`),
      logLimitBytes,
      identityFile: identityFile(name, resolved),
      stopGraceMs,
    },
    clock,
  );
}

/** Names the running process, for a later start. */
function identityFile(name: ProgramName, { runDir }: ResolvedOptions): string {
  return join(runDir, `${name}.json`);
}

interface InputParts {
  readonly resolved: ResolvedOptions;
  readonly certificates: ControlPlaneCertificates;
  readonly port: number;
}

async function writeInput({ resolved, certificates, port }: InputParts): Promise<ProgramArgsInput> {
  const kubeconfig = async (user: "controller-manager" | "scheduler"): Promise<string> => {
    const identity = certificates[user === "scheduler" ? "scheduler" : "controllerManager"];
    const path = join(resolved.dataDir, `${user}.kubeconfig`);
    const ca = certificates.cluster.certificate;
    const server = `https://127.0.0.1:${port}`;
    await writeWhole(path, kubeconfigText({ server, ca, user, identity }));
    return path;
  };
  const { auditLog: log } = resolved;
  const policy = join(resolved.dataDir, "audit-policy.json");
  if (log !== undefined) await writeWhole(policy, auditPolicy());
  return {
    certificates: certificates.files,
    audit: log === undefined ? undefined : { policy, log },
    bindAddress: resolved.bindAddress,
    advertiseAddress: resolved.advertiseAddress,
    port,
    serviceCidr: resolved.serviceCidr,
    featureGates: resolved.featureGates,
    runtimeConfig: resolved.runtimeConfig,
    controllerManagerKubeconfig: await kubeconfig("controller-manager"),
    schedulerKubeconfig: await kubeconfig("scheduler"),
  };
}
