import { errorText, pause, type Clock, type Logger } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import type { KubeletTls, RunningKubeletApi } from "../kubelet-api/index.ts";

/** Options of {@link NodeTls}. */
export interface NodeTlsOptions {
  readonly api: Pick<RunningKubeletApi, "replaceTls">;
  /** The certificates that are now in use. */
  readonly tls: KubeletTls;
  /** Rereads the certificates. Absent: they are not reread. */
  readonly reload: (() => Promise<KubeletTls>) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Interval for rereading certificates, milliseconds. The kubelet uses the same. */
const reloadMs = 60_000;

/**
 * The certificates of a node's kubelet API. They change with their files, when the cluster issues a certificate, and when the
 * caller replaces them. If new ones are invalid, the old ones stay in use.
 */
export class NodeTls {
  readonly #options: NodeTlsOptions;
  #tls: KubeletTls;
  /** The last certificates that were read. The key pair may be replaced by one that the cluster issued. */
  #read: KubeletTls;
  #isIssued = false;

  constructor(options: NodeTlsOptions) {
    this.#options = options;
    this.#tls = options.tls;
    this.#read = options.tls;
  }

  /** Replaces the certificates. @throws VK_TLS_INVALID */
  replace(tls: KubeletTls): void {
    this.#options.api.replaceTls(tls);
    this.#tls = tls;
  }

  /** Uses a certificate from the cluster. Certificates that are read later do not replace it. @throws VK_TLS_INVALID */
  useIssued(pair: KeyPair): void {
    this.replace({ ...this.#tls, ...pair });
    this.#isIssued = true;
  }

  /** Rereads the certificates regularly until the signal aborts. Never rejects. */
  async run(): Promise<void> {
    const { reload, clock, logger, signal } = this.#options;
    if (!reload) return;
    let problem: string | undefined;
    while (!signal.aborted) {
      try {
        if (this.#take(await reload())) logger.info("Replaced the certificates of the kubelet API");
        problem = undefined;
      } catch (err) {
        const text = errorText(err);
        if (text !== problem)
          logger.error("Could not renew the kubelet API's certificates", { err });
        problem = text;
      }
      await pause(reloadMs, clock, signal);
    }
  }

  /** @returns whether something has changed */
  #take(next: KubeletTls): boolean {
    const { certificate, key, clientCa } = next;
    const hasNewPair = certificate !== this.#read.certificate || key !== this.#read.key;
    const hasNewCa = clientCa !== this.#read.clientCa;
    if (!hasNewPair && !hasNewCa) return false;
    const pair = hasNewPair && !this.#isIssued ? { certificate, key } : {};
    const ca = hasNewCa ? { clientCa } : {};
    this.replace({ ...this.#tls, ...pair, ...ca });
    this.#read = next;
    return true;
  }
}
