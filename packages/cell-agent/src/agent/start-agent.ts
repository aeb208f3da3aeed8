import { existsSync } from "node:fs";
import { agentPort, decodeCellIdentity, type AgentInfo, type CellIdentity } from "@kip/agent-api";
import { systemClock, type Clock, type Logger } from "@kip/base";
import { agentDirectories } from "../storage/agent-directories.ts";
import { loadDependencies, type AgentDependencies } from "../dependencies/agent-dependencies.ts";
import type { PodService } from "./pod-service.ts";
import { readJson, writeJson } from "../storage/json-file.ts";
import { agentFacts } from "../server/agent-facts.ts";
import { listen } from "../server/agent-server.ts";
import { answerJson } from "../server/answers.ts";

/** Options of {@link startAgent}. */
export interface AgentOptions {
  /** The agent's identity; a newer one that kip has sent (in `runDir`) wins. */
  readonly identity: CellIdentity;
  /** Version that `GET /v1/info` shows. */
  readonly agentVersion: string;
  /** Directory on disk for images, root file systems, logs and emptyDirs: `/var/lib/itzo`. */
  readonly stateDir: string;
  /** Directory on a tmpfs for the desired pod, secrets and runtime state: `/run/itzo`. */
  readonly runDir: string;
  /** TCP port; 0 takes a free one. @default agentPort (6421) */
  readonly port?: number;
  /** Address to listen on. @default all */
  readonly host?: string;
  /** Milliseconds from the kernel's start to `userspace` and `network`; the agent adds `listening`. */
  readonly bootTimingsMs?: Readonly<Record<string, number>>;
  /** When this machine began, milliseconds of the monotonic clock. @default 0, the kernel's start */
  readonly startedAtMs?: number;
  readonly logger: Logger;
  /** @default systemClock */
  readonly clock?: Clock;
  /** Loads the agent's dependencies; called once it listens and has answered. @default crun, conmon and the image store */
  readonly loadDependencies?: () => Promise<AgentDependencies>;
}

/** An agent that listens. */
export interface RunningAgent extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
  /** Resolves when everything is loaded and running containers are taken over, or cannot be. */
  readonly ready: Promise<void>;
  /** Stops listening; the containers go on running. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts the agent: resolves as soon as it listens, which is what kip waits for.
 *
 * An agent that has no pod yet loads what it does not need for its first answer only after that: the machine's
 * processor would be busy with it while kip waits. One that had a pod before has containers to take over, and begins
 * at once.
 *
 * @throws {AgentError} code `AGENT_LISTEN_FAILED` when the port cannot be opened
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { stateDir, runDir, logger } = options;
  const clock = options.clock ?? systemClock;
  const directories = agentDirectories(stateDir, runDir);
  let identity = newestIdentity(options.identity, directories.identity);
  let bootTimingsMs = options.bootTimingsMs ?? {};
  const createService = async (): Promise<PodService> => {
    const { PodService } = await import("./pod-service.ts");
    return new PodService({
      directories,
      clock,
      logger,
      identity: () => identity,
      setIdentity: (newer) => {
        server.setIdentity(newer);
        writeJson(directories.identity, newer);
        identity = newer;
      },
    });
  };
  const early = existsSync(directories.desiredPod) ? await createService() : undefined;
  const ready = Promise.withResolvers<void>();
  let isEnding = false;
  let working: Promise<PodService> | undefined;
  const begin = async (): Promise<PodService> => await (working ??= work());
  const server = await listen({
    identity,
    port: options.port ?? agentPort,
    ...(options.host !== undefined && { host: options.host }),
    logger,
    handler: async (stream, request) => {
      if (`${request.method} ${request.path}` !== "GET /v1/info")
        return await (await begin()).serve(stream, request);
      const pod = (await working)?.pod;
      answerJson(stream, 200, {
        ...agentFacts(),
        cellName: identity.cellName,
        agentVersion: options.agentVersion,
        bootTimingsMs,
        ...(pod && { podUid: pod.uid, podGeneration: pod.generation }),
      } satisfies AgentInfo);
      // Not before the answer has gone.
      stream.once("close", () => {
        if (!isEnding) begin().catch(ready.reject);
      });
    },
  });
  bootTimingsMs = {
    ...bootTimingsMs,
    listening: Math.round(monotonicMs() - (options.startedAtMs ?? 0)),
  };
  // The local cloud reads this line from the console, see admission/start-phase.ts.
  logger.info("Agent listens", { port: server.port, cell: identity.cellName, ...bootTimingsMs });
  if (early) await begin();
  return {
    port: server.port,
    ready: ready.promise,
    [Symbol.asyncDispose]: async () => {
      isEnding = true;
      await server[Symbol.asyncDispose]();
      await (await working)?.[Symbol.asyncDispose]();
    },
  };

  async function work(): Promise<PodService> {
    const made = early ?? (await createService());
    made.begin(
      options.loadDependencies ?? (() => loadDependencies({ directories, logger, clock })),
    );
    ready.resolve(made.ready);
    return made;
  }
}

/** Milliseconds since the kernel's start; a copy of a template counts on from the template's. */
function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

function newestIdentity(given: CellIdentity, file: string): CellIdentity {
  const put = readJson(file);
  if (put === undefined) return given;
  const newer = decodeCellIdentity(put, "identity");
  return newer.cellName === given.cellName ? newer : given;
}
