import http from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { loadKubeConfig, type Credentials, type KubeConfig } from "@kip/k8s-client";

/** What the proxy does to a request instead of passing it on, or besides. */
export type Fault =
  /** Answers with a `Status` of this code. */
  | { readonly status: number; readonly retryAfterSeconds?: number }
  /** Closes the connection before the server has seen the request. */
  | "reset"
  /** Passes the request on, and closes the connection instead of answering. */
  | "lostAnswer"
  /** Passes a watch on as one of a version that the server has forgotten. */
  | "gone"
  /** Never answers. */
  | "silence";

/** A request as a fault rule sees it. */
export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly isWatch: boolean;
  readonly authorization: string | undefined;
}

/** A proxy in front of the API server that lets a test fail, delay or cut requests. */
export class FaultProxy implements AsyncDisposable {
  /** Asked for each request; undefined passes it on. */
  fault: (request: SeenRequest) => Fault | undefined = () => undefined;
  /** Requests that were passed on or not, in order. */
  readonly requests: SeenRequest[] = [];
  readonly #server: http.Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<http.ServerResponse>();
  readonly #upstream: KubeConfig;
  readonly #agent: https.Agent;
  #isDown = false;

  private constructor(upstream: KubeConfig, agent: https.Agent) {
    this.#upstream = upstream;
    this.#agent = agent;
    this.#server = http.createServer((request, response) => void this.#handle(request, response));
    this.#server.on("connection", (socket) => {
      if (this.#isDown) socket.destroy();
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  /** Opens a proxy that speaks to the server as the user of a kubeconfig. */
  static async open(kubeconfigPath: string): Promise<FaultProxy> {
    const upstream = await loadKubeConfig({ path: kubeconfigPath });
    const { ca, cert, key } = await upstream.credentials();
    const agent = new https.Agent({
      keepAlive: true,
      ...(ca && { ca }),
      ...(cert && { cert }),
      ...(key && { key }),
    });
    const proxy = new FaultProxy(upstream, agent);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  /** How to reach the proxy; `token` is asked for each request and sent as bearer token. */
  config(token: () => string = () => "any", forget: () => void = () => {}): KubeConfig {
    const { port } = this.#server.address() as AddressInfo; // a TCP server that listens
    let credentials: Credentials | undefined;
    return {
      server: `http://127.0.0.1:${port}`,
      namespace: "default",
      source: "fault proxy",
      credentials: async () => {
        const headers = { Authorization: `Bearer ${token()}` };
        // A new object means new connections.
        if (credentials?.headers["Authorization"] !== headers.Authorization)
          credentials = { verifyServer: true, headers };
        return credentials;
      },
      forget,
    };
  }

  /** Cuts the watches that are open. */
  cutWatches(): void {
    for (const response of this.#watches) response.destroy();
  }

  /** The server is away: connections are closed and new ones refused. */
  goDown(): void {
    this.#isDown = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  comeUp(): void {
    this.#isDown = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#agent.destroy();
  }

  async #handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = "GET", url = "/" } = request;
    const isWatch = new URL(url, "http://x").searchParams.get("watch") === "true";
    const { authorization } = request.headers;
    const seen = { method, url, isWatch, authorization };
    this.requests.push(seen);
    const fault = this.fault(seen);
    if (fault === "silence") return;
    if (fault === "reset") return void request.socket.destroy();
    if (typeof fault === "object") return refuse(response, fault);
    const target = new URL(url, this.#upstream.server);
    if (fault === "gone") target.searchParams.set("resourceVersion", "1");
    this.#forward(request, response, { target, isWatch, isLost: fault === "lostAnswer" });
  }

  #forward(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    how: { readonly target: URL; readonly isWatch: boolean; readonly isLost: boolean },
  ): void {
    const { authorization: _, host: _host, connection: _connection, ...headers } = request.headers;
    const upstream = https.request(how.target, {
      method: request.method ?? "GET",
      headers,
      agent: this.#agent,
    });
    upstream.on("error", () => response.destroy());
    response.on("close", () => {
      if (!response.writableFinished) upstream.destroy(); // the client left
    });
    upstream.on("response", (answer) => {
      if (how.isLost) {
        request.socket.destroy();
        return;
      }
      if (how.isWatch) {
        this.#watches.add(response);
        response.once("close", () => this.#watches.delete(response));
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    request.pipe(upstream);
  }
}

function refuse(
  response: http.ServerResponse,
  fault: { readonly status: number; readonly retryAfterSeconds?: number },
): void {
  const { status, retryAfterSeconds } = fault;
  if (retryAfterSeconds !== undefined) response.setHeader("Retry-After", retryAfterSeconds);
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(
    JSON.stringify({
      kind: "Status",
      apiVersion: "v1",
      status: "Failure",
      code: status,
      message: "fault",
    }),
  );
}
