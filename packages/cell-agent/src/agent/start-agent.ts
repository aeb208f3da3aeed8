import { existsSync } from "node:fs";
import type { ServerHttp2Stream } from "node:http2";
import { agentPort, decodeCellIdentity, type AgentInfo, type CellIdentity } from "@kip/agent-api";
import { systemClock, type Clock, type Logger } from "@kip/base";
import { agentDirectories, type AgentDirectories } from "../storage/agent-directories.ts";
import { loadDependencies } from "../dependencies/agent-dependencies.ts";
import type { Ec2NoticesOptions } from "../notices/ec2-notices.ts";
import type { PodService } from "./pod-service.ts";
import { readJson, writeJson } from "../storage/json-file.ts";
import { agentFacts } from "../server/agent-facts.ts";
import { listen, type AgentServer } from "../server/agent-server.ts";
import { answerJson } from "../server/answers.ts";

/** Options of {@link startAgent}. */
export interface AgentOptions {
  /** The agent's identity. A newer one that kip has sent (in `runDir`) takes precedence. */
  readonly identity: CellIdentity;
  /** Version to return from `GET /v1/info`. */
  readonly agentVersion: string;
  /** Folder on disk for images, root file systems, logs and emptyDirs: `/var/lib/itzo`. */
  readonly stateDir: string;
  /** Folder on a tmpfs for the desired pod, Secrets and runtime state: `/run/itzo`. */
  readonly runDir: string;
  /** TCP port. 0 uses any free one. @default agentPort (6421) */
  readonly port?: number | undefined;
  /** Address at which to listen. @default all */
  readonly host?: string | undefined;
  /** Milliseconds from the kernel's start to `userspace` and `network`; the agent adds `listening`. */
  readonly bootTimingsMs?: Readonly<Record<string, number>> | undefined;
  /** When this machine started, milliseconds of the monotonic clock. @default 0, the kernel's start */
  readonly startedAtMs?: number | undefined;
  /** Reads a path below `latest` of EC2's metadata service, if this machine has one. @default does not look for notices */
  readonly readMetadata?: Ec2NoticesOptions["read"] | undefined;
  readonly logger: Logger;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
  /** Loads the agent's dependencies. Called after it has sent its first response. @default crun, conmon and the image store */
  readonly loadDependencies?: typeof loadDependencies | undefined;
}

/** A running agent. */
export interface RunningAgent extends AsyncDisposable {
  /** The port at which it is listening. */
  readonly port: number;
  /** Resolves when everything is loaded and running containers have been taken over, or when that has failed. */
  readonly ready: Promise<void>;
  /** Resolves when a container of the pod is running, whichever process of the agent started it. */
  readonly running: Promise<void>;
  /** Stops listening. The containers keep running. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts the agent. Resolves as soon as it is listening, because kip is waiting for that.
 *
 * An agent without a pod only loads what it does not need for its first response after sending that. Otherwise the machine's
 * CPU would be busy while kip is waiting. An agent that had a pod before has containers to take over, and starts to do so at
 * once.
 *
 * @throws {AgentError} code `AGENT_LISTEN_FAILED` if the port cannot be opened
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const agent = new Agent(options);
  await agent.start();
  return agent;
}

class Agent implements RunningAgent {
  readonly #options: AgentOptions;
  readonly #clock: Clock;
  readonly #directories: AgentDirectories;
  readonly #ready = Promise.withResolvers<void>();
  readonly #running = Promise.withResolvers<void>();
  #identity: CellIdentity;
  #bootTimingsMs: Readonly<Record<string, number>>;
  #server: AgentServer | undefined;
  /** Created before it listens, if an earlier process of the agent had a pod. */
  #early: PodService | undefined;
  #working: Promise<PodService> | undefined;
  readonly #ending = new AbortController();

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#directories = agentDirectories(options.stateDir, options.runDir);
    this.#identity = newestIdentity(options.identity, this.#directories.identity);
    this.#bootTimingsMs = options.bootTimingsMs ?? {};
  }

  get port(): number {
    return this.#server?.port ?? 0;
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get running(): Promise<void> {
    return this.#running.promise;
  }

  async start(): Promise<void> {
    if (existsSync(this.#directories.desiredPod)) this.#early = await this.#createService();
    await this.#listen();
    if (this.#early) await this.#begin();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#server?.[Symbol.asyncDispose]();
    await (await this.#working)?.[Symbol.asyncDispose]();
  }

  async #createService(): Promise<PodService> {
    const { PodService } = await import("./pod-service.ts");
    return new PodService({
      directories: this.#directories,
      clock: this.#clock,
      logger: this.#options.logger,
      identity: () => this.#identity,
      setIdentity: (newer) => this.#setIdentity(newer),
    });
  }

  #setIdentity(newer: CellIdentity): void {
    this.#server?.setIdentity(newer);
    writeJson(this.#directories.identity, newer);
    this.#identity = newer;
  }

  async #listen(): Promise<void> {
    const { port = agentPort, host, startedAtMs = 0, logger } = this.#options;
    const identity = this.#identity;
    this.#server = await listen({
      identity,
      port,
      host,
      logger,
      handler: async (stream, request) => {
        if (`${request.method} ${request.path}` === "GET /v1/info") await this.#answerInfo(stream);
        else await (await this.#begin()).serve(stream, request);
      },
    });
    const listening = Math.round(monotonicMs() - startedAtMs);
    this.#bootTimingsMs = { ...this.#bootTimingsMs, listening };
    // The local cloud reads this line from the console, see admission/start-phase.ts.
    const fields = { port: this.port, cell: identity.cellName, ...this.#bootTimingsMs };
    logger.info("Agent listens", fields);
  }

  async #answerInfo(stream: ServerHttp2Stream): Promise<void> {
    const pod = (await this.#working)?.pod;
    answerJson(stream, 200, {
      ...agentFacts(),
      cellName: this.#identity.cellName,
      agentVersion: this.#options.agentVersion,
      bootTimingsMs: this.#bootTimingsMs,
      podUid: pod?.uid,
      podGeneration: pod?.generation,
    } satisfies AgentInfo);
    // Not before the response has been sent.
    stream.once("close", () => {
      if (!this.#ending.signal.aborted) this.#begin().catch(this.#ready.reject);
    });
  }

  /** Starts the work for the pod, once. */
  async #begin(): Promise<PodService> {
    return await (this.#working ??= this.#work());
  }

  async #work(): Promise<PodService> {
    const { logger, loadDependencies: load = loadDependencies } = this.#options;
    const service = this.#early ?? (await this.#createService());
    service.begin(() => load({ directories: this.#directories, logger, clock: this.#clock }));
    const { readMetadata } = this.#options;
    if (readMetadata) void service.watchNotices(readMetadata, this.#ending.signal);
    this.#ready.resolve(service.ready);
    this.#running.resolve(service.running);
    return service;
  }
}

/** Milliseconds since the kernel's start. A clone continues the template's count. */
function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

function newestIdentity(given: CellIdentity, file: string): CellIdentity {
  const put = readJson(file);
  if (put === undefined) return given;
  const newer = decodeCellIdentity(put, "identity");
  return newer.cellName === given.cellName ? newer : given;
}
