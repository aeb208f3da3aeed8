import type { Clock, Logger } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import type { Binaries, ProgramName } from "../binaries/pinned-version.ts";

/** Options of {@link startControlPlane}. */
export interface ControlPlaneOptions {
  readonly binaries: Binaries;
  /** Keeps etcd's data, certificates and kubeconfigs; made with mode 0700 if absent. */
  readonly dataDir: string;
  /** One `<program>.log` each; made if absent. */
  readonly logDir: string;
  /**
   * Port of the API server; 0 takes a free one and keeps it for later starts on the same `dataDir`.
   * @default 6443
   */
  readonly port?: number | undefined;
  /** Address the API server listens at. @default "127.0.0.1" */
  readonly bindAddress?: string | undefined;
  /**
   * Address of the `kubernetes` Service as pods see it; not loopback, need not exist yet.
   * @default "198.18.0.1"
   */
  readonly advertiseAddress?: string | undefined;
  /** Further host names and addresses that the API server's certificate is good for. @default none */
  readonly serverNames?: readonly string[] | undefined;
  /** Range of Service addresses, or one of each family, separated by a comma. @default "10.96.0.0/16" */
  readonly serviceCidr?: string | undefined;
  /** Feature gates of the API server, the controller manager and the scheduler. @default none */
  readonly featureGates?: Readonly<Record<string, boolean>> | undefined;
  /** Versions of the API that are served or not, as `--runtime-config` names them. @default Kubernetes' own */
  readonly runtimeConfig?: Readonly<Record<string, boolean>> | undefined;
  /** Longest wait until the API is ready, milliseconds. @default 60,000 */
  readonly readyTimeoutMs?: number | undefined;
  /**
   * File that the API server appends to what kip asks of it, one event of Kubernetes' audit API a line, without bodies.
   * @default none
   */
  readonly auditLog?: string | undefined;
  /**
   * The virtual node that kip acts as (`--act-as-node`): kip has the rights of the manifests in `deploy/`, and may impersonate this
   * node instead of reading what pods refer to itself.
   * @default none
   */
  readonly actsAsNode?: string | undefined;
  /** Environment of the programs, besides PATH. @default empty */
  readonly environment?: Readonly<NodeJS.ProcessEnv> | undefined;
  /** Called for each program that ended unasked; it is started again. */
  readonly onExit?: ((exit: ProgramExit) => void) | undefined;
  /** Abandons the start. A control plane that is up is stopped with {@link ControlPlane.stop}. */
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
}

/** An unexpected end of a program. */
export interface ProgramExit {
  readonly program: ProgramName;
  /** How it ended and its last lines, in a sentence. */
  readonly reason: string;
  /** Milliseconds until it is started again. */
  readonly restartInMs: number;
}

/** A running control plane; disposing of it stops it. */
export interface ControlPlane extends AsyncDisposable {
  /** Kubernetes version, for example `v1.34.10`. */
  readonly version: string;
  /** URL of the API server on this machine, `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly port: number;
  /** Certificate authority (PEM) of the API server, of its clients and of kubelets. */
  readonly ca: string;
  /** The administrator's identity (group `system:masters`), for the user's kubeconfig. */
  readonly admin: KeyPair;
  /** Kubeconfig file of the administrator, mode 0600. */
  readonly adminKubeconfig: string;
  /** Kubeconfig file of user `kip`: what a virtual kubelet and its provider need, no more. */
  readonly kipKubeconfig: string;
  /** Milliseconds from the call of {@link startControlPlane} until the API was ready. */
  readonly startedInMs: number;
  /** Process ids of the programs, as of now. */
  readonly pids: Readonly<Partial<Record<ProgramName, number>>>;
  /**
   * A certificate for a kubelet's HTTPS port that the API server accepts; clients of that port,
   * the API server among them, are signed by {@link ControlPlane.ca}.
   *
   * @param node name of the node
   * @param addresses its addresses, as in its status
   */
  issueKubeletCertificate(node: string, addresses: readonly string[]): Promise<KeyPair>;
  /**
   * The text of a kubeconfig for a client that is known by its name alone; what it may do is up to RBAC.
   *
   * @param server address of this machine at which the client reaches the API server, as of {@link ControlPlane.exposeAt}
   */
  issueKubeconfig(user: string, server: string): Promise<string>;
  /**
   * Lets the API server be reached at one more address of this machine, for example at the host end
   * of a virtual network, once that address exists. Same port; TLS and authentication are the API
   * server's own.
   */
  exposeAt(address: string): Promise<AsyncDisposable>;
  /** Ends all programs, the API server's clients first, and returns when they are gone. */
  stop(): Promise<void>;
}
