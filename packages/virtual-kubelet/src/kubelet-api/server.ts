import { X509Certificate } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { errorText, httpModule, mergeSmallPieces, portOf } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";
import { allowUsers, certificateUser, type KubeletUser } from "./access/user.ts";
import { HttpRefusal, refusalOf, refuse } from "./transport/answer.ts";
import { Connections } from "./connections.ts";
import { sendContainerLogs } from "./container-logs.ts";
import { LongRequests } from "./long-requests.ts";
import { PodConnections } from "./pod-connections.ts";
import { NodeAnswers } from "./node-routes.ts";
import {
  defaultKubeletLimits,
  type KubeletApiOptions,
  type KubeletTls,
  type RunningKubeletApi,
} from "./options.ts";
import {
  allowedMethods,
  findRoute,
  isStreamRoute,
  requestAction,
  type PodPath,
  type Route,
  type StreamRoute,
} from "./routes.ts";
import { RequestMetrics } from "./stats/request-metrics.ts";
import { StreamMemory } from "./transport/stream-memory.ts";
import { Turns } from "./transport/turns.ts";
import { isStreamUpgrade, prepareStreamRequest, type StreamServices } from "./stream-request.ts";
import { isWebSocketUpgrade } from "./websocket/upgrade.ts";

const defaultPort = 10_250;
const handshakeTimeoutMs = 10_000;
const headersTimeoutMs = 30_000;
/** Interval for finding requests that are late, milliseconds. */
const checkIntervalMs = 5000;
const keepAliveTimeoutMs = 60_000;
const keepAliveProbeMs = 30_000;
const defaultIdleTimeoutMs = 4 * 60 * 60 * 1000;
const defaultCreationTimeoutMs = 30_000;

/**
 * Serves the kubelet's HTTPS API.
 *
 * @throws VK_LISTEN_FAILED if the port is not free; VK_TLS_INVALID if a PEM text is invalid
 */
export async function startKubeletApi(options: KubeletApiOptions): Promise<RunningKubeletApi> {
  const api = new KubeletApi(options);
  await api.listen();
  return api;
}

class KubeletApi implements RunningKubeletApi {
  readonly #options: KubeletApiOptions;
  readonly #services: StreamServices;
  readonly #requests = new RequestMetrics();
  readonly #node: NodeAnswers;
  readonly #server: https.Server;
  readonly #connections: Connections;
  readonly #longRequests: LongRequests;
  readonly #podConnections: PodConnections;

  constructor(options: KubeletApiOptions) {
    this.#options = options;
    const limits = { ...defaultKubeletLimits, ...options.limits };
    this.#services = {
      handlers: options.handlers,
      limits,
      streamIdleTimeoutMs: options.streamIdleTimeoutMs ?? defaultIdleTimeoutMs,
      streamCreationTimeoutMs: options.streamCreationTimeoutMs ?? defaultCreationTimeoutMs,
      turns: new Turns(),
      memory: new StreamMemory({
        connectionBytes: limits.connectionBufferBytes,
        allBytes: limits.allBufferBytes,
        allStreams: limits.allStreams,
      }),
      clock: options.clock,
      logger: options.logger,
    };
    const { streamIdleTimeoutMs: idleMs } = this.#services;
    this.#node = new NodeAnswers({
      handlers: options.handlers,
      requests: this.#requests,
      config: {
        enableServer: true,
        port: options.port ?? defaultPort,
        streamingConnectionIdleTimeout: `${Number.isFinite(idleMs) ? idleMs / 1000 : 0}s`,
        address: options.host,
      },
      clock: options.clock,
      logger: options.logger,
    });
    this.#server = createServer(options, limits.requestHeaderBytes);
    this.#longRequests = new LongRequests(limits);
    this.#podConnections = new PodConnections(limits);
    // Node's own listener runs after this one and reads the limit for the new connection.
    this.#server.prependListener("secureConnection", (socket) =>
      Object.assign(this.#server, { maxHeaderSize: this.#longRequests.headLimit(socket) }),
    );
    this.#server.on("request", (request, response) => void this.#request(request, response));
    this.#server.on(
      "upgrade",
      (request, socket, head) => void this.#upgrade(request, socket, head),
    );
    this.#connections = new Connections(limits.connections);
    this.#server.on("connection", (socket: Socket) => this.#connections.add(socket));
  }

  get port(): number {
    return portOf(this.#server);
  }

  replaceTls(tls: KubeletTls): void {
    withTlsErrors(() => this.#server.setSecureContext(secureContext(tls)));
  }

  async listen(): Promise<void> {
    const { host, port = defaultPort } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (cause) =>
        reject(
          new VirtualKubeletError(
            "VK_LISTEN_FAILED",
            `Cannot serve the kubelet API on port ${port}`,
            {
              cause,
              remedy: "Stop the program that holds the port, or choose another port",
            },
          ),
        ),
      );
      this.#server.listen({ port, host }, resolve);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#connections.closeAll();
    });
  }

  async #request(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const count = this.#count(request);
    response.once("close", () => count.end());
    try {
      const { route, query } = await this.#admit(request, count);
      count.route = route.kind;
      if (isStreamRoute(route))
        this.#prepare(request, query, route); // throws because this is not an upgrade
      else await this.#answer(route, query, response, count);
    } catch (error) {
      this.#refuse(request, response, error);
    }
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const count = this.#count(request);
    socket.once("close", () => count.end());
    socket.on("error", () => {}); // clients that disconnect early are not worth a log line
    try {
      const { route, query } = await this.#admit(request, count);
      count.route = route.kind;
      if (!isStreamRoute(route)) throw new HttpRefusal(400, "this path does not open streams");
      const streams = this.#prepare(request, query, route);
      count.releases.push(this.#podConnections.hold(route));
      if (isWebSocketUpgrade(request)) this.#requests.webSocket(route.kind.toLowerCase());
      mergeSmallPieces(socket); // a client may send each byte in a separate TLS record
      // Bytes that arrived while the client was being authorised. No code that counts bytes has seen them yet.
      const early = (socket.read() as Buffer | null) ?? Buffer.alloc(0);
      await streams.begin(socket, Buffer.concat([head, early]));
    } catch (error) {
      const response = new (httpModule().ServerResponse)(request);
      response.shouldKeepAlive = false;
      // Node only assigns a socket to this response on request. The types expect the server's own class.
      response.assignSocket(socket as Parameters<ServerResponse["assignSocket"]>[0]);
      response.once("finish", () => socket.end(() => socket.destroy()));
      this.#refuse(request, response, error);
    }
  }

  /** Counts a request from now until its end. */
  #count({ method = "" }: IncomingMessage): RequestCount {
    const startedAt = this.#options.clock.monotonic();
    this.#requests.begin();
    const count: RequestCount = {
      route: "unknown",
      releases: [],
      end: () => {
        for (const release of count.releases) release();
        this.#requests.end({
          method,
          route: count.route,
          isLong: longRoutes.has(count.route),
          durationMs: this.#options.clock.monotonic() - startedAt,
        });
      },
    };
    return count;
  }

  /** Authenticates and authorizes a request, and finds its route. */
  async #admit(request: IncomingMessage, count: RequestCount): Promise<Admitted> {
    const { authorize = allowUsers(this.#options.allowedUsers) } = this.#options;
    const user = await this.#authenticate(request);
    if (user === undefined) throw new HttpRefusal(401, "Unauthorized");
    this.#connections.admit(request.socket);
    const [path = "", query = ""] = splitUrl(request.url ?? "");
    const action = requestAction(request.method ?? "", path);
    if (!(await authorize(user, action))) {
      const { verb, subresources } = action;
      const asked = `resource=nodes, subresource(s)=[${subresources.join(" ")}]`;
      throw new HttpRefusal(403, `Forbidden (user=${user.name}, verb=${verb}, ${asked})`);
    }
    // The client has disconnected, so nothing would release what the request holds.
    if (request.socket.destroyed) throw new HttpRefusal(400, "the client has left");
    count.releases.push(this.#longRequests.hold(request));
    const route = findRoute(path);
    if (route === undefined) throw new HttpRefusal(404, "404 page not found");
    if (route.kind === "disabled") throw new HttpRefusal(405, route.message);
    const methods = allowedMethods(route);
    if (!methods.includes(request.method ?? ""))
      throw new HttpRefusal(405, "405: Method Not Allowed", { Allow: methods.join(", ") });
    return { route, query: new URLSearchParams(query) };
  }

  async #authenticate(request: IncomingMessage): Promise<KubeletUser | undefined> {
    const { authenticate, clock, logger } = this.#options;
    try {
      return await (authenticate?.(request) ?? certificateUser(request, clock));
    } catch (error) {
      if (error instanceof HttpRefusal) throw error;
      logger.warn("Could not authenticate a client", { err: error });
      return undefined; // as in the kubelet, the response is then also 401
    }
  }

  #prepare(
    request: IncomingMessage,
    query: URLSearchParams,
    route: StreamRoute,
  ): ReturnType<typeof prepareStreamRequest> {
    const pod = this.#pod(route);
    if (route.kind !== "portForward" && !hasContainer(pod, route.container))
      throw new HttpRefusal(404, `container not found ("${route.container}")`);
    return prepareStreamRequest(request, query, route, pod, this.#services);
  }

  async #answer(
    route: PlainRoute,
    query: URLSearchParams,
    response: ServerResponse,
    count: RequestCount,
  ): Promise<void> {
    const { handlers, clock, logger } = this.#options;
    if (route.kind !== "containerLogs") return await this.#node.send(route, query, response);
    const pod = this.#pod(route);
    const { container } = route;
    if (!hasContainer(pod, container))
      throw new HttpRefusal(404, `container "${container}" not found in pod "${route.pod}"`);
    count.releases.push(this.#podConnections.hold(route));
    await sendContainerLogs({ pod, container, query, response, handlers, clock, logger });
  }

  #pod(path: PodPath): Pod {
    const pod = this.#options.handlers.findPod(path.namespace, path.pod, path.uid);
    if (pod === undefined) throw new HttpRefusal(404, `pod "${path.pod}" does not exist`);
    return pod;
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const refusal = refusalOf(error);
    const path = splitUrl(request.url ?? "")[0];
    const fields = { path, status: refusal.status, err: errorText(error) };
    if (refusal.status >= 500 && refusal.status !== 501)
      this.#options.logger.error("Could not answer a request to the kubelet API", fields);
    else this.#options.logger.debug("Refused a request to the kubelet API", fields);
    if (response.headersSent) response.destroy();
    else refuse(response, refusal);
  }
}

/** Kinds of routes whose requests stay open as long as their clients want. */
const longRoutes: ReadonlySet<string> = new Set(["exec", "attach", "portForward", "containerLogs"]);

/** A request under way. */
interface RequestCount {
  route: Route["kind"] | "unknown";
  /** Release what the request holds. */
  readonly releases: (() => void)[];
  readonly end: () => void;
}

type AnsweredRoute = Exclude<Route, { readonly kind: "disabled" }>;
type PlainRoute = Exclude<AnsweredRoute, StreamRoute>;

/** A request that its user may make. */
interface Admitted {
  readonly route: AnsweredRoute;
  readonly query: URLSearchParams;
}

/** @throws {VirtualKubeletError} `VK_TLS_INVALID` */
function createServer(tls: KubeletTls, maxHeaderSize: number): https.Server {
  const server = withTlsErrors(() =>
    https.createServer({
      ...secureContext(tls),
      // Requested, but not required: as in a kubelet, a client without a certificate gets an HTTP response.
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ["http/1.1"],
      handshakeTimeout: handshakeTimeoutMs,
      maxHeaderSize,
      shouldUpgradeCallback: isStreamUpgrade,
      connectionsCheckingInterval: checkIntervalMs,
      keepAlive: true, // finds clients whose machine is gone
      keepAliveInitialDelay: keepAliveProbeMs,
    }),
  );
  server.headersTimeout = headersTimeoutMs;
  server.keepAliveTimeout = keepAliveTimeoutMs;
  return server;
}

function secureContext(tls: KubeletTls): https.ServerOptions {
  // Without an authority, Node would use the public ones. A file may be empty while it is written.
  checkCertificates(tls.clientCa);
  return { cert: tls.certificate, key: tls.key, ca: tls.clientCa, minVersion: "TLSv1.2" };
}

/** @throws if a text contains no certificate, or an unreadable one */
function checkCertificates(pem: string): void {
  const blocks = pem.match(/-----BEGIN [^-]*CERTIFICATE-----[^-]*-----END [^-]*CERTIFICATE-----/g);
  if (blocks === null) throw new Error("There is no certificate of a client CA");
  for (const block of blocks) void new X509Certificate(block);
}

function withTlsErrors<T>(use: () => T): T {
  try {
    return use();
  } catch (cause) {
    throw new VirtualKubeletError("VK_TLS_INVALID", "Cannot use the kubelet API's certificates", {
      cause,
      remedy: "Give certificate, key and client CA as PEM texts that belong together",
    });
  }
}

function splitUrl(url: string): readonly string[] {
  const mark = url.indexOf("?");
  return mark < 0 ? [url] : [url.slice(0, mark), url.slice(mark + 1)];
}

function hasContainer(pod: Pod, name: string): boolean {
  const { containers, initContainers, ephemeralContainers } = pod.spec;
  return [containers, initContainers, ephemeralContainers]
    .flatMap((list): readonly { readonly name: string }[] => list ?? [])
    .some((container) => container.name === name);
}
