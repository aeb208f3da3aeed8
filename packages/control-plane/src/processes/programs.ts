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

/** The four programs. Disposing of them ends them. */
export interface Programs extends AsyncDisposable {
  /** Port of the API server. */
  readonly port: number;
  /** The end of the first program that ends. */
  readonly firstEnd: Promise<ProgramEnd>;
  readonly pids: Readonly<Partial<Record<ProgramName, number>>>;
  /**
   * Starts the scheduler and the controller manager, once the API is ready. If they started earlier, the API server would
   * refuse their requests. The scheduler would then retry with growing delays, and the controller manager would end after 10 s.
   */
  startClients(): void;
  /** From now on, restarts each program when it ends. */
  supervise(onEnd: (program: ProgramName, end: ProgramEnd, restartInMs: number) => void): void;
}

/** How long each program may take to end, milliseconds. Requests under way may finish. Watches are closed at once. */
const stopGraceMs = 5000;
const logLimitBytes = 16 * 1024 * 1024;
/** The environment is not the caller's, so proxies, credentials and Go settings have no effect. */
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/**
 * Starts etcd and the API server together. The API server waits for etcd.
 *
 * @param choosePort called when no process of an earlier start holds the port any longer
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
        // this object is created in this file
        programs[name].supervise((end, restartInMs) => onEnd(name, end, restartInMs));
    },
    // The API server's clients end before it, and it ends before etcd.
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

/** The file that identifies the running process for a later start. */
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
