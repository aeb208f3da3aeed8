import { join } from "node:path";
import type { ProgramName } from "../binaries/pinned-version.ts";
import type { ControlPlaneCertificates } from "../certificates/control-plane-certificates.ts";
import { writeWhole } from "../files.ts";
import { kubeconfigText } from "../kubeconfig/kubeconfig-file.ts";
import type { ResolvedOptions } from "../resolve-options.ts";
import {
  apiServerArgs,
  controllerManagerArgs,
  etcdArgs,
  schedulerArgs,
  type ProgramArgsInput,
} from "./program-args.ts";
import { SupervisedProgram, type ProgramEnd } from "./supervised-program.ts";

/** The four programs, started together; disposing of them ends them. */
export interface Programs extends AsyncDisposable {
  /** Port of the API server. */
  readonly port: number;
  /** The first of them that ends. */
  readonly firstEnd: Promise<ProgramEnd>;
  readonly pids: Readonly<Partial<Record<ProgramName, number>>>;
  /**
   * Starts the scheduler, once the API is ready: before that it is refused what it may not yet
   * read, and then waits longer and longer. (The controller manager waits for the API by itself.)
   */
  startScheduler(): void;
  /** Starts each again from now on whenever it ends. */
  supervise(onEnd: (end: ProgramEnd, restartInMs: number) => void): void;
}

/** How long each may take to end: requests under way may finish, watches are closed at once. */
const stopGraceMs = 5000;
const logLimitBytes = 16 * 1024 * 1024;

/**
 * Starts all programs but the scheduler at once: each waits for the one that it needs.
 *
 * @param choosePort called when nothing of an earlier start holds the port any more
 */
export async function startPrograms(
  resolved: ResolvedOptions,
  certificates: ControlPlaneCertificates,
  choosePort: () => Promise<number>,
): Promise<Programs> {
  await using undo = new AsyncDisposableStack();
  const make = (program: ProgramName): SupervisedProgram => supervised(program, resolved);
  const etcd = make("etcd");
  const apiServer = make("kube-apiserver");
  const clients = [make("kube-controller-manager"), make("kube-scheduler")] as const;
  // Clients of the API server end before it does, and it ends before etcd.
  const stop = async (): Promise<void> => {
    await Promise.all(clients.map(async (client) => await client.stop()));
    await apiServer.stop();
    await etcd.stop();
  };
  const all = [etcd, apiServer, ...clients];
  undo.defer(stop);

  for (const program of all) await program.endLeftover();
  const port = await choosePort();
  const input = await writeInput({ resolved, certificates, port });
  const firstEnd = Promise.withResolvers<ProgramEnd>();
  const start = (program: SupervisedProgram, args: readonly string[]): void =>
    void program.start(args).then(firstEnd.resolve);
  start(etcd, etcdArgs());
  start(apiServer, apiServerArgs(input));
  start(clients[0], controllerManagerArgs(input));
  undo.move();
  return {
    port,
    firstEnd: firstEnd.promise,
    startScheduler: () => start(clients[1], schedulerArgs(input)),
    get pids() {
      const running = all.filter((program) => program.pid !== undefined);
      return Object.fromEntries(running.map((program) => [program.spec.program, program.pid]));
    },
    supervise: (onEnd) => {
      for (const program of all) program.supervise(onEnd);
    },
    [Symbol.asyncDispose]: stop,
  };
}

function supervised(program: ProgramName, resolved: ResolvedOptions): SupervisedProgram {
  const { binaries, logDir, runDir, etcdDir, clock } = resolved;
  const file = binaries.paths[program];
  return new SupervisedProgram(
    { program, file, directory: etcdDir, logDir, runDir, stopGraceMs, logLimitBytes },
    clock,
  );
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
  return {
    certificates: certificates.files,
    bindAddress: resolved.bindAddress,
    advertiseAddress: resolved.advertiseAddress,
    port,
    serviceCidr: resolved.serviceCidr,
    controllerManagerKubeconfig: await kubeconfig("controller-manager"),
    schedulerKubeconfig: await kubeconfig("scheduler"),
  };
}
