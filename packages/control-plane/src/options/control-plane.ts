import type { Clock, Logger } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import type { Binaries, ProgramName } from "../binaries/pinned-version.ts";

/** Options of {@link startControlPlane}. */
export interface ControlPlaneOptions {
  readonly binaries: Binaries;
  /** Directory for etcd's data, certificates and kubeconfigs. Created with mode 0700 if absent. */
  readonly dataDir: string;
  /** Directory with one `<program>.log` each. Created if absent. */
  readonly logDir: string;
  /** Port of the API server. 0 chooses a free one and keeps it for later starts with the same `dataDir`. @default 6443 */
  readonly port?: number | undefined;
  /** Address on which the API server listens. @default "127.0.0.1" */
  readonly bindAddress?: string | undefined;
  /** Address of the `kubernetes` Service for pods. Not loopback. Need not exist yet. @default "198.18.0.1" */
  readonly advertiseAddress?: string | undefined;
  /** Additional host names and addresses in the API server's certificate. @default none */
  readonly serverNames?: readonly string[] | undefined;
  /** Range of Service addresses, or one range per family, separated by a comma. @default "10.96.0.0/16" */
  readonly serviceCidr?: string | undefined;
  /** Feature gates of the API server, the controller manager and the scheduler. @default none */
  readonly featureGates?: Readonly<Record<string, boolean>> | undefined;
  /** API versions to enable or disable, in the form of `--runtime-config`. @default Kubernetes' own */
  readonly runtimeConfig?: Readonly<Record<string, boolean>> | undefined;
  /** Longest wait until the API is ready, milliseconds. @default 60,000 */
  readonly readyTimeoutMs?: number | undefined;
  /**
   * File to which the API server appends kip's requests, as one audit event of Kubernetes per line, without bodies. @default
   * none
   */
  readonly auditLog?: string | undefined;
  /**
   * The virtual node that kip acts as (`--act-as-node`). Kip then has the rights of the manifests in `deploy/`, and
   * impersonates this node for reading what pods refer to, instead of reading that itself. @default none
   */
  readonly actsAsNode?: string | undefined;
  /** Environment of the programs, in addition to PATH. @default empty */
  readonly environment?: Readonly<NodeJS.ProcessEnv> | undefined;
  /** Called for each program that ended unexpectedly. It is restarted. */
  readonly onExit?: ((exit: ProgramExit) => void) | undefined;
  /** Aborts the start. Once the control plane runs, stop it with {@link ControlPlane.stop}. */
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
}

/** An unexpected end of a program. */
export interface ProgramExit {
  readonly program: ProgramName;
  /** How it ended, and its last lines, in one sentence. */
  readonly reason: string;
  /** Milliseconds until it is restarted. */
  readonly restartInMs: number;
}

/** A running control plane. Disposing of it stops it. */
export interface ControlPlane extends AsyncDisposable {
  /** Kubernetes version, for example `v1.34.10`. */
  readonly version: string;
  /** URL of the API server on this machine, `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly port: number;
  /** Certificate authority (PEM) that has signed the certificates of the API server, its clients and kubelets. */
  readonly ca: string;
  /** The administrator's identity (group `system:masters`), for the user's kubeconfig. */
  readonly admin: KeyPair;
  /** The administrator's kubeconfig file, mode 0600. */
  readonly adminKubeconfig: string;
  /** The kubeconfig file of user `kip`, with exactly the rights that a virtual kubelet and its provider need. */
  readonly kipKubeconfig: string;
  /** Milliseconds from the call of {@link startControlPlane} until the API was ready. */
  readonly startedInMs: number;
  /** Current process IDs of the programs. */
  readonly pids: Readonly<Partial<Record<ProgramName, number>>>;
  /**
   * Issues a certificate for a kubelet's HTTPS port that the API server accepts. {@link ControlPlane.ca} signs the certificates
   * of that port's clients, including the API server's.
   *
   * @param node name of the node
   * @param addresses the node's addresses, as in its status
   */
  issueKubeletCertificate(node: string, addresses: readonly string[]): Promise<KeyPair>;
  /**
   * Makes a kubeconfig for a client with just a user name. RBAC determines its rights.
   *
   * @param server this machine's address at which the client reaches the API server, as in {@link ControlPlane.exposeAt}
   */
  issueKubeconfig(user: string, server: string): Promise<string>;
  /**
   * Makes the API server reachable at one more address of this machine, such as the host end of a virtual network, once that
   * address exists. Uses the same port, and the API server's own TLS and authentication.
   */
  exposeAt(address: string): Promise<AsyncDisposable>;
  /** Ends all programs, starting with the API server's clients. Resolves when they are gone. */
  stop(): Promise<void>;
}
