import { join } from "node:path";
import type { KeyPair } from "@kip/pki";
import type { ProgramName } from "../binaries/pinned-version.ts";
import type { ControlPlaneCertificates } from "../certificates/control-plane-certificates.ts";
import type { ControlPlane } from "../options/control-plane.ts";
import { kubeconfigText } from "../kubeconfig/kubeconfig-file.ts";
import { forwardConnections } from "../processes/forward.ts";
import type { Programs } from "../processes/programs.ts";
import type { ResolvedOptions } from "../options/resolve-options.ts";

interface Parts {
  readonly resolved: ResolvedOptions;
  readonly certificates: ControlPlaneCertificates;
  readonly programs: Programs;
  readonly lock: AsyncDisposable;
  readonly server: string;
  readonly startedInMs: number;
}

const validMs = 365 * 24 * 3_600_000;

/** The result of {@link startControlPlane}. */
export class RunningControlPlane implements ControlPlane {
  readonly version: string;
  readonly server: string;
  readonly port: number;
  readonly ca: string;
  readonly admin: KeyPair;
  readonly adminKubeconfig: string;
  readonly kipKubeconfig: string;
  readonly startedInMs: number;
  readonly #parts: Parts;
  readonly #forwards = new Set<AsyncDisposable>();
  #stopped: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.version = parts.resolved.binaries.version;
    this.server = parts.server;
    this.port = parts.programs.port;
    this.ca = parts.certificates.cluster.certificate;
    this.admin = parts.certificates.admin;
    this.adminKubeconfig = join(parts.resolved.dataDir, "admin.kubeconfig");
    this.kipKubeconfig = join(parts.resolved.dataDir, "kip.kubeconfig");
    this.startedInMs = parts.startedInMs;
  }

  get pids(): Readonly<Partial<Record<ProgramName, number>>> {
    return this.#parts.programs.pids;
  }

  async issueKubeletCertificate(node: string, addresses: readonly string[]): Promise<KeyPair> {
    return await this.#parts.certificates.cluster.issue({
      commonName: `system:node:${node}`.slice(0, 64),
      organizations: ["system:nodes"],
      dnsNames: [node],
      ipAddresses: addresses,
      usages: ["server"],
      validMs,
    });
  }

  async issueKubeconfig(user: string, server: string): Promise<string> {
    const { cluster } = this.#parts.certificates;
    const identity = await cluster.issue({ commonName: user, usages: ["client"], validMs });
    const ca = cluster.certificate;
    return kubeconfigText({ server: `https://${server}:${this.port}`, ca, user, identity });
  }

  async exposeAt(address: string): Promise<AsyncDisposable> {
    const forward = await forwardConnections({
      from: { address, port: this.port },
      to: { address: "127.0.0.1", port: this.port },
    });
    this.#forwards.add(forward);
    return {
      [Symbol.asyncDispose]: async () => {
        if (this.#forwards.delete(forward)) await forward[Symbol.asyncDispose]();
      },
    };
  }

  async stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    await this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(): Promise<void> {
    await using undo = new AsyncDisposableStack();
    undo.use(this.#parts.lock);
    undo.use(this.#parts.programs);
    for (const forward of this.#forwards) undo.use(forward);
    this.#parts.resolved.logger.info("Began to stop the control plane");
  }
}
