import { errorText, pause, type Clock, type Logger } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import type { KubeletTls, RunningKubeletApi } from "../kubelet-api/index.ts";

/** Options of {@link NodeTls}. */
export interface NodeTlsOptions {
  readonly api: Pick<RunningKubeletApi, "replaceTls">;
  /** What the API serves with now. */
  readonly tls: KubeletTls;
  /** Reads the certificates again. Absent: they do not change by themselves. */
  readonly reload: (() => Promise<KubeletTls>) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** How often certificates are read again, milliseconds; the kubelet's interval. */
const reloadMs = 60_000;

/**
 * The certificates that a node's kubelet API serves with. They change with their files, when the
 * cluster issues one, and when the caller replaces them. Invalid new ones leave the old ones in use.
 */
export class NodeTls {
  readonly #options: NodeTlsOptions;
  #tls: KubeletTls;
  /** What was read last and is in use; the key pair may be one that the cluster issued instead. */
  #read: KubeletTls;
  #isIssued = false;

  constructor(options: NodeTlsOptions) {
    this.#options = options;
    this.#tls = options.tls;
    this.#read = options.tls;
  }

  /** Uses other certificates. @throws VK_TLS_INVALID */
  replace(tls: KubeletTls): void {
    this.#options.api.replaceTls(tls);
    this.#tls = tls;
  }

  /** Uses a certificate of the cluster; one that is read later does not replace it. @throws VK_TLS_INVALID */
  useIssued(pair: KeyPair): void {
    this.replace({ ...this.#tls, ...pair });
    this.#isIssued = true;
  }

  /** Reads the certificates again from time to time, until the signal aborts. Never rejects. */
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

  /** Whether something has changed. */
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
