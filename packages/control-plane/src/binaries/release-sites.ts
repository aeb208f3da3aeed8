import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from "node:http";
import http from "node:http";
import https from "node:https";
import { errorText, isSystemError, untilAborted } from "@kip/base";
import type { ReleaseDigests } from "./release-digests.ts";

/** Options of {@link ReleaseSites}. */
export interface ReleaseSitesOptions {
  /** Environment with HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower case. @default no proxy */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Base URLs. @default the projects' own sites */
  readonly urls?: Readonly<Record<ReleaseProject, string>> | undefined;
  /** Pinned digests of the downloaded releases, by architecture. @default those of `release-digests.ts` */
  readonly digests?: Readonly<Partial<Record<string, ReleaseDigests>>> | undefined;
  /** Certificate authorities in PEM form that replace Node's. @default Node's and those of NODE_EXTRA_CA_CERTS */
  readonly ca?: string | undefined;
  /** Longest pause of a site while it sends a file, milliseconds. @default 20 s */
  readonly stallMs?: number | undefined;
  /** How long the sites have to respond, milliseconds. @default 3 s */
  readonly probeMs?: number | undefined;
}

/** A project with releases to download. */
export type ReleaseProject = "kubernetes" | "etcd" | "coredns";

const officialUrls: Readonly<Record<ReleaseProject, string>> = {
  kubernetes: "https://dl.k8s.io/release",
  etcd: "https://github.com/etcd-io/etcd/releases/download",
  coredns: "https://github.com/coredns/coredns/releases/download",
};
const maxRedirects = 5;

/** The response was neither a file nor a redirect. */
export class UnexpectedStatus extends Error {
  override readonly name = "UnexpectedStatus";
  readonly status: number;
  readonly headers: IncomingHttpHeaders;

  constructor(status: number, headers: IncomingHttpHeaders) {
    super(`the server answered ${status}`);
    this.status = status;
    this.headers = headers;
  }
}

/** The projects' download sites. One object is used for a whole run. It checks once whether the sites are reachable. */
export class ReleaseSites {
  readonly urls: Readonly<Record<ReleaseProject, string>>;
  /** `undefined`: the digests of the pinned release. */
  readonly digests: ReleaseSitesOptions["digests"];
  readonly #stallMs: number;
  readonly #probeMs: number;
  readonly #plain: http.Agent;
  readonly #tls: https.Agent;
  #problem: Promise<string | undefined> | undefined;
  #isReported = false;

  constructor(options: ReleaseSitesOptions = {}) {
    this.urls = options.urls ?? officialUrls;
    this.digests = options.digests;
    this.#stallMs = options.stallMs ?? 20_000;
    this.#probeMs = options.probeMs ?? 3000;
    const proxyEnv = options.env;
    this.#plain = new http.Agent({ proxyEnv });
    this.#tls = new https.Agent({ proxyEnv, ...(options.ca !== undefined && { ca: options.ca }) });
  }

  /**
   * Whether all sites answer. Checked once, at the first call. If not, the first caller's `onProgress` gets the reason in one
   * line.
   */
  async canReach(onProgress: (line: string) => void, signal?: AbortSignal): Promise<boolean> {
    this.#problem ??= this.#probe();
    const problem = await untilAborted(this.#problem, signal);
    if (problem === undefined) return true;
    if (!this.#isReported) onProgress(`Cannot download releases: ${problem}; building instead`);
    this.#isReported = true;
    return false;
  }

  /**
   * Requests a file and returns a response with status 200 or 206. Follows redirects, except from TLS to plain HTTP.
   *
   * @throws {UnexpectedStatus} for any other response
   * @throws Node's network errors; {@link Error} after too many redirects, or if the site is silent
   */
  async get(
    url: string,
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<IncomingMessage> {
    let next = new URL(url);
    for (let redirects = 0; redirects <= maxRedirects; redirects++) {
      const response = await this.#request(next, { headers, signal, timeout: this.#stallMs });
      const { statusCode: status = 0, headers: received } = response;
      if (status === 200 || status === 206) return response;
      response.resume();
      if (status < 300 || status > 399 || received.location === undefined)
        throw new UnexpectedStatus(status, received);
      const target = new URL(received.location, next);
      if (next.protocol === "https:" && target.protocol !== "https:")
        throw new Error(`it is redirected to "${target.origin}", without TLS`);
      next = target;
    }
    throw new Error("there are too many redirects");
  }

  async #probe(): Promise<string | undefined> {
    const origins = new Set(Object.values(this.urls).map((url) => new URL(url).origin));
    const problems = await Promise.all([...origins].map(async (at) => await this.#probeOne(at)));
    return problems.find((problem) => problem !== undefined);
  }

  /** Any response is enough. The download checks whether the file is there. */
  async #probeOne(origin: string): Promise<string | undefined> {
    const limit = AbortSignal.timeout(this.#probeMs);
    try {
      const options = { method: "HEAD", signal: limit, timeout: this.#probeMs };
      (await this.#request(new URL(origin), options)).destroy();
      return undefined;
    } catch (error) {
      const reason = limit.aborted ? `no answer within ${this.#probeMs / 1000} s` : reasonOf(error);
      return `"${origin}" cannot be reached: ${reason}`;
    }
  }

  async #request(url: URL, options: RequestOptions): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const request =
      url.protocol === "https:"
        ? https.request(url, { ...options, agent: this.#tls })
        : http.request(url, { ...options, agent: this.#plain });
    let response: IncomingMessage | undefined;
    request.on("response", (received: IncomingMessage) => {
      response = received;
      resolve(received);
    });
    request.on("timeout", () => {
      const seconds = (options.timeout ?? 0) / 1000;
      (response ?? request).destroy(new Error(`the server was silent for ${seconds} s`));
    });
    request.on("error", reject);
    request.on("close", () => reject(new Error("the connection ended without an answer")));
    request.end();
    return await promise;
  }
}

/** Why a site is unreachable or a file cannot be downloaded. */
export function reasonOf(error: unknown): string {
  if (isSystemError(error, "ENOTFOUND", "EAI_AGAIN")) return "its name cannot be resolved";
  if (isSystemError(error, "ECONNREFUSED")) return "the connection is refused";
  return errorText(error);
}
