import http2, { type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import { bytesOf, portOf } from "@kip/base";
import { bucketCount } from "@kip/network-view";
import type { AgentInfo, CellIdentity } from "../agent-info.ts";
import type { AgentStats } from "../agent-stats.ts";
import { decodeDesiredPod, type DesiredPod } from "../desired-pod.ts";
import type { ContainerReport, PodReport } from "../pod-report.ts";
import { agentPort } from "../routes.ts";

/** Options of {@link SimulatedAgent.listen}. */
export interface SimulatedAgentOptions {
  readonly identity: CellIdentity;
  /** Address at which it listens. */
  readonly host: string;
  /** @default agentPort (6421) */
  readonly port?: number | undefined;
  /** Delay between the pod's arrival and the start of its containers, milliseconds. @default 0 */
  readonly startMs?: number | undefined;
  /** Called when the containers of a pod start, and when they have ended. */
  readonly onRun?: ((podUid: string) => void) | undefined;
  readonly onEnd?: ((podUid: string) => void) | undefined;
}

/** Interval of blank lines on a status stream, milliseconds, as the agent sends them. */
const blankLineMs = 60_000;

/**
 * An agent without containers. It serves the API over real HTTP/2 and TLS, reports that its pod is running, and reports that it
 * has ended after kip stops it. For tests of kip and measurements with many cells: one process can run thousands.
 */
export class SimulatedAgent implements AsyncDisposable {
  readonly port: number;
  readonly #options: SimulatedAgentOptions;
  readonly #server: http2.Http2SecureServer;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #listeners = new Set<ServerHttp2Stream>();
  readonly #blankLines: NodeJS.Timeout;
  #starting: NodeJS.Timeout | undefined;
  #pod: DesiredPod | undefined;
  #startedAt: string | undefined;
  #endedAt: string | undefined;

  private constructor(server: http2.Http2SecureServer, options: SimulatedAgentOptions) {
    this.#server = server;
    this.#options = options;
    this.port = portOf(server);
    server.on("session", (session) => {
      this.#sessions.add(session);
      session.on("error", () => {});
      session.once("close", () => this.#sessions.delete(session));
    });
    server.on("stream", (stream: ServerHttp2Stream, headers) => {
      stream.on("error", () => {});
      const url = new URL(headers[":path"] ?? "/", "https://cell");
      this.#serve(stream, `${headers[":method"]} ${url.pathname}`).catch((error: unknown) =>
        stream.destroy(error instanceof Error ? error : undefined),
      );
    });
    this.#blankLines = setInterval(() => {
      for (const stream of this.#listeners) stream.write("\n");
    }, blankLineMs).unref();
  }

  /** Resolves when it is listening. */
  static async listen(options: SimulatedAgentOptions): Promise<SimulatedAgent> {
    const { ca, certificate: cert, key } = options.identity;
    const server = http2.createSecureServer({ ca, cert, key, requestCert: true });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once("error", reject);
    server.listen(options.port ?? agentPort, options.host, resolve);
    await promise;
    return new SimulatedAgent(server, options);
  }

  /** Closes every open connection. New ones are accepted. */
  cut(): void {
    for (const session of this.#sessions) session.destroy();
  }

  /** Simulates that the machine is gone: closes all connections, and ends the containers. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#starting);
    clearInterval(this.#blankLines);
    if (this.#pod && this.#startedAt !== undefined && this.#endedAt === undefined)
      this.#options.onEnd?.(this.#pod.uid);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }

  async #serve(stream: ServerHttp2Stream, request: string): Promise<void> {
    switch (request) {
      case "GET /v1/info":
        return answer(stream, 200, this.#info());
      case "PUT /v1/pod":
        return await this.#takePod(stream);
      case "DELETE /v1/pod":
        if (!this.#pod) return answer(stream, 404, failure("AGENT_NO_POD", "There is no pod"));
        this.#end();
        return answer(stream, 202);
      case "GET /v1/status":
        stream.respond({ ":status": 200 });
        this.#listeners.add(stream);
        stream.once("close", () => this.#listeners.delete(stream));
        return this.#send(stream);
      case "POST /v1/network":
        return await followNetwork(stream);
      case "GET /v1/stats":
        return answer(stream, 200, noStats());
      case "PUT /v1/identity":
        stream.resume();
        return answer(stream, 204);
      default:
        return answer(stream, 404, failure("AGENT_NOT_FOUND", "This agent is simulated"));
    }
  }

  #info(): AgentInfo {
    return {
      cellName: this.#options.identity.cellName,
      agentVersion: "0.0.0-simulated",
      apiVersion: "v1",
      kernelVersion: "0",
      osImage: "simulated",
      runtimeVersion: "simulated",
      bootId: this.#options.identity.cellName,
      bootTimingsMs: {},
      podUid: this.#pod?.uid,
      podGeneration: this.#pod?.generation,
    };
  }

  async #takePod(stream: ServerHttp2Stream): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of bytesOf(stream)) parts.push(part);
    const pod = decodeDesiredPod(JSON.parse(Buffer.concat(parts).toString()), "pod");
    if (this.#pod && this.#pod.uid !== pod.uid)
      return answer(stream, 409, failure("AGENT_OTHER_POD", `Pod ${this.#pod.uid} is here`));
    const isFirst = this.#pod === undefined;
    if (isFirst || pod.generation > (this.#pod?.generation ?? 0)) this.#pod = pod;
    if (isFirst) this.#starting = setTimeout(() => this.#run(), this.#options.startMs ?? 0);
    answer(stream, 202, { generation: this.#pod?.generation });
    this.#changed();
  }

  #run(): void {
    if (!this.#pod || this.#endedAt !== undefined) return;
    this.#startedAt = now();
    this.#options.onRun?.(this.#pod.uid);
    this.#changed();
  }

  #end(): void {
    if (!this.#pod || this.#endedAt !== undefined) return;
    clearTimeout(this.#starting);
    this.#endedAt = now();
    if (this.#startedAt !== undefined) this.#options.onEnd?.(this.#pod.uid);
    this.#changed();
  }

  #changed(): void {
    for (const stream of this.#listeners) this.#send(stream);
  }

  #send(stream: ServerHttp2Stream): void {
    if (this.#pod) stream.write(`${JSON.stringify(this.#report(this.#pod))}\n`);
  }

  #report(pod: DesiredPod): PodReport {
    const isEnded = this.#endedAt !== undefined;
    const phase = isEnded ? "Failed" : this.#startedAt === undefined ? "Pending" : "Running";
    return {
      podUid: pod.uid,
      generation: pod.generation,
      phase,
      startTime: now(),
      initContainers: [],
      containers: pod.containers.map(({ name, image }) => ({
        ...this.#containerState(),
        name,
        image,
        restartCount: 0,
        containerId: `crun://${pod.uid}-${name}`,
      })),
      ephemeralContainers: [],
      events: [],
      timingsMs: { pull: 0, unpack: 0, start: 0 },
      ...(isEnded && { isReleased: true }),
    };
  }

  #containerState(): Pick<
    ContainerReport,
    "ready" | "started" | "running" | "waiting" | "terminated"
  > {
    const [startedAt, finishedAt] = [this.#startedAt, this.#endedAt];
    if (finishedAt !== undefined) {
      const terminated = { exitCode: 143, reason: "Error", startedAt, finishedAt };
      return { ready: false, started: false, terminated };
    }
    if (startedAt === undefined)
      return { ready: false, started: false, waiting: { reason: "ContainerCreating" } };
    return { ready: true, started: true, running: { startedAt } };
  }
}

/** Confirms each change at once, and does not store it. */
async function followNetwork(stream: ServerHttp2Stream): Promise<void> {
  stream.respond({ ":status": 200 });
  stream.write(`${JSON.stringify({ sums: Array<number>(bucketCount).fill(0) })}\n`);
  let rest = "";
  for await (const piece of bytesOf(stream)) {
    const lines = `${rest}${piece.toString()}`.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const [kind, number] = JSON.parse(line) as [string, number]; // kip's own format
      if (kind === "end") stream.write(`${JSON.stringify({ applied: number })}\n`);
    }
  }
}

function noStats(): AgentStats {
  return { time: now(), containers: {}, agentRssBytes: 0, agentCpuMicroseconds: 0 };
}

function failure(code: string, message: string): object {
  return { code, message, retryable: false };
}

function answer(stream: ServerHttp2Stream, status: number, value?: object): void {
  if (value === undefined) return stream.respond({ ":status": status }, { endStream: true });
  stream.respond({ ":status": status });
  stream.end(JSON.stringify(value));
}

/** RFC 3339, whole seconds. */
function now(): string {
  return `${new Date().toISOString().slice(0, 19)}Z`;
}
