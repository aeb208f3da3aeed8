import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { acquireFileLock, errorText, runCommand, LockError } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { CertificateFiles } from "../certificates/certificate-files.ts";
import {
  controlPlaneCertificates,
  type ControlPlaneCertificates,
} from "../certificates/control-plane-certificates.ts";
import type { ControlPlane, ControlPlaneOptions } from "../options/control-plane.ts";
import { readIfPresent, writeWhole } from "../host/files.ts";
import { kubeconfigText } from "../kubeconfig/kubeconfig-file.ts";
import { freePort, requireFreePort } from "../processes/ports.ts";
import { startPrograms, type Programs } from "../processes/programs.ts";
import { waitUntilReady } from "../processes/readiness.ts";
import { startingObjects } from "./rbac.ts";
import {
  firstServiceAddress,
  resolveOptions,
  type ResolvedOptions,
} from "../options/resolve-options.ts";
import { RunningControlPlane } from "./running-control-plane.ts";

/**
 * Starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and resolves once the API is ready. A later start
 * with the same `dataDir` has the same objects, certificates and port. Programs that end are then restarted. All of them end
 * with this process.
 *
 * @throws {ControlPlaneError} `PORT_TAKEN` if another program is listening on the port
 * @throws {ControlPlaneError} `CONTROL_PLANE_IN_USE` if another process runs one in `dataDir`
 * @throws {ControlPlaneError} `CONTROL_PLANE_START_FAILED` if a program ends, or the time limit passes; no program is left
 * running
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const resolved = resolveOptions(options);
  const begin = resolved.clock.monotonic();
  for (const directory of [resolved.etcdDir, resolved.runDir, resolved.logDir])
    await mkdir(directory, { recursive: true, mode: 0o700 });

  await using undo = new AsyncDisposableStack();
  const lock = undo.use(await lockDataDir(resolved));
  const certificates = await certificatesFor(resolved);
  const programs = undo.use(
    await startPrograms(resolved, certificates, () => choosePort(resolved)),
  );
  const server = `https://127.0.0.1:${programs.port}`;
  await becomeReady({ resolved, certificates, programs, server });

  programs.supervise((program, { reason }, restartInMs) => {
    resolved.logger.warn("Program ended and is started again", { program, reason, restartInMs });
    resolved.onExit({ program, reason, restartInMs });
  });
  undo.move();
  const startedInMs = Math.round(resolved.clock.monotonic() - begin);
  resolved.logger.info("Control plane started", { durationMs: startedInMs, server });
  return new RunningControlPlane({ resolved, certificates, programs, lock, server, startedInMs });
}

async function lockDataDir(resolved: ResolvedOptions): Promise<AsyncDisposable> {
  try {
    return await acquireFileLock(join(resolved.dataDir, "lock"), { whenHeld: "fail" });
  } catch (error) {
    if (!LockError.is(error, "LOCK_HELD")) throw error;
    throw new ControlPlaneError(
      "CONTROL_PLANE_IN_USE",
      `Cannot start the control plane in "${resolved.dataDir}": another process runs it already`,
      { cause: error, remedy: "Use that one, or end it first" },
    );
  }
}

async function certificatesFor(resolved: ResolvedOptions): Promise<ControlPlaneCertificates> {
  const files = new CertificateFiles({ directory: resolved.pkiDir, clock: resolved.clock });
  const service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];
  return await controlPlaneCertificates(files, [
    "localhost",
    ...service,
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    firstServiceAddress(resolved.serviceCidr),
    resolved.advertiseAddress,
    ...resolved.serverNames,
  ]);
}

/** The requested port. For 0: the last start's port if it is free, otherwise any free one. */
async function choosePort(resolved: ResolvedOptions): Promise<number> {
  const { bindAddress, port } = resolved;
  if (port !== 0) {
    await requireFreePort(port, bindAddress);
    return port;
  }
  const path = join(resolved.dataDir, "port");
  const last = Number(await readIfPresent(path));
  try {
    if (last > 0) {
      await requireFreePort(last, bindAddress);
      return last;
    }
  } catch (error) {
    if (!ControlPlaneError.is(error, "PORT_TAKEN")) throw error;
  }
  const chosen = await freePort(bindAddress);
  await writeWhole(path, String(chosen));
  return chosen;
}

interface StartingUp {
  readonly resolved: ResolvedOptions;
  readonly certificates: ControlPlaneCertificates;
  readonly programs: Programs;
  readonly server: string;
}

async function becomeReady(start: StartingUp): Promise<void> {
  const { resolved, certificates, programs, server } = start;
  const ready = new AbortController();
  const limits = [ready.signal, AbortSignal.timeout(resolved.readyTimeoutMs)];
  const signal = AbortSignal.any(resolved.signal ? [...limits, resolved.signal] : limits);
  void programs.firstEnd.then((end) => ready.abort(new Error(end.reason)));
  try {
    await writeKubeconfigs(start);
    await waitUntilReady({
      server,
      ca: certificates.cluster.certificate,
      identity: certificates.admin,
      clock: resolved.clock,
      signal,
    });
    programs.startClients();
    await applyStartingObjects(resolved, signal);
  } catch (error) {
    resolved.signal?.throwIfAborted();
    const reason = ready.signal.aborted ? errorText(ready.signal.reason) : errorText(error);
    throw new ControlPlaneError(
      "CONTROL_PLANE_START_FAILED",
      `Cannot start the control plane: ${reason}`,
      {
        cause: error,
        remedy: `Read the logs in "${resolved.logDir}"`,
      },
    );
  }
}

async function writeKubeconfigs({ resolved, certificates, server }: StartingUp): Promise<void> {
  const ca = certificates.cluster.certificate;
  const files = { admin: certificates.admin, kip: certificates.kip };
  for (const [user, identity] of Object.entries(files)) {
    const path = join(resolved.dataDir, `${user}.kubeconfig`);
    await writeWhole(path, kubeconfigText({ server, ca, user, identity }));
  }
}

/** Creates roles and bindings, and the default service account, without which no pod is admitted. */
async function applyStartingObjects(resolved: ResolvedOptions, signal: AbortSignal): Promise<void> {
  const kubectl = async (args: readonly string[], input?: string): Promise<unknown> =>
    await runCommand(
      resolved.binaries.paths.kubectl,
      [`--kubeconfig=${join(resolved.dataDir, "admin.kubeconfig")}`, ...args],
      { env: { HOME: resolved.dataDir }, signal, input },
    );
  await Promise.all([
    kubectl(
      ["apply", "--server-side", "--force-conflicts", "-f", "-"],
      startingObjects(resolved.actsAsNode),
    ),
    kubectl(["wait", "--for=create", "--timeout=60s", "serviceaccount/default"]),
  ]);
}
