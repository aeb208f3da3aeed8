import https from "node:https";
import { silentLogger, systemClock } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import {
  startKubeletApi,
  type KubeletApiOptions,
  type RunningKubeletApi,
} from "../src/kubelet-api/index.ts";
import { ProcessProvider } from "./process-provider.ts";

const host = "127.0.0.1";
const hourMs = 3_600_000;

/** An answer of the kubelet API. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** TLS settings of a client. */
export interface ClientTls {
  readonly ca: string;
  readonly cert?: string;
  readonly key?: string;
}

/** A kubelet API with an authority of its own, one pod `ns/p` with container `c`, and its clients. */
export class KubeletApiFixture implements AsyncDisposable {
  readonly provider: ProcessProvider;
  readonly authority: CertificateAuthority;
  /** Has a client certificate of the authority. */
  readonly client: ClientTls;
  /** Has none. */
  readonly anonymous: ClientTls;
  readonly options: KubeletApiOptions;
  readonly #api: RunningKubeletApi;

  private constructor(made: {
    provider: ProcessProvider;
    authority: CertificateAuthority;
    client: KeyPair;
    options: KubeletApiOptions;
    api: RunningKubeletApi;
  }) {
    const { provider, authority, client, options, api } = made;
    this.provider = provider;
    this.authority = authority;
    this.anonymous = { ca: authority.certificate };
    this.client = { ...this.anonymous, cert: client.certificate, key: client.key };
    this.options = options;
    this.#api = api;
  }

  static async start(options: Partial<KubeletApiOptions> = {}): Promise<KubeletApiFixture> {
    const authority = await CertificateAuthority.create({ commonName: "test", validMs: hourMs });
    const issue = async (commonName: string, usage: "client" | "server"): Promise<KeyPair> =>
      await authority.issue({ commonName, ipAddresses: [host], usages: [usage], validMs: hourMs });
    const provider = new ProcessProvider(pod, "/tmp");
    const all: KubeletApiOptions = {
      host,
      port: 0,
      ...(await issue("server", "server")),
      clientCa: authority.certificate,
      handlers: provider,
      logger: silentLogger,
      clock: systemClock,
      ...options,
    };
    const client = await issue("kube-apiserver-kubelet-client", "client");
    const api = await startKubeletApi(all);
    return new KubeletApiFixture({ provider, authority, client, options: all, api });
  }

  get port(): number {
    return this.#api.port;
  }

  /** Sends a request and reads the whole answer. */
  async ask(
    path: string,
    request: https.RequestOptions = {},
    tls: ClientTls = this.client,
  ): Promise<Answer> {
    const where = { host, port: this.port, path, agent: false, ...tls, ...request };
    return await askHttps(where);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#api[Symbol.asyncDispose]();
  }
}

const pod = podWith({
  metadata: { name: "p", namespace: "ns", uid: "u1" },
  spec: { containers: [{ name: "c", image: "x" }] },
});

/** Sends a request without a body and reads the whole answer. */
export async function askHttps(where: https.RequestOptions): Promise<Answer> {
  return await new Promise<Answer>((resolve, reject) => {
    const sent = https.request(where, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("error", reject);
      response.once("end", () =>
        resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
      );
    });
    sent.once("error", reject);
    sent.end();
  });
}
