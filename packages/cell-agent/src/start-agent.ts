import { existsSync } from "node:fs";
import { agentPort, decodeCellIdentity, type AgentInfo, type CellIdentity } from "@kip/agent-api";
import { systemClock, type Clock, type Logger } from "@kip/base";
import { agentDirectories } from "./agent-directories.ts";
import { loadParts, type AgentParts } from "./agent-parts.ts";
import type { AgentWork } from "./agent-work.ts";
import { readJson, writeJson } from "./json-file.ts";
import { agentFacts } from "./server/agent-facts.ts";
import { listen } from "./server/agent-server.ts";
import { answerJson } from "./server/answers.ts";

/** Options of {@link startAgent}. */
export interface AgentOptions {
  /** Whom the agent is; a newer identity that kip has put since then (in `runDir`) wins. */
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
  /** Loads what the agent works with; called once it listens and has answered. @default crun, conmon and the image store */
  readonly loadParts?: () => Promise<AgentParts>;
}

/** An agent that listens. */
export interface RunningAgent extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
  /** Resolves when all is loaded and containers of an earlier life are taken over, or cannot be. */
  readonly ready: Promise<void>;
  /** Stops listening and lets go of the containers, which go on running. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts the agent: resolves as soon as it listens, which is what kip waits for.
 *
 * An agent that has no pod yet loads what it does not need for its first answer only after that: the machine's
 * processor would be busy with it while kip waits. One that had a pod before has containers to take over, and begins
 * at once.
 *
 * @throws {KipError} code `AGENT_LISTEN_FAILED` when the port cannot be opened
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { stateDir, runDir, logger } = options;
  const clock = options.clock ?? systemClock;
  const directories = agentDirectories(stateDir, runDir);
  let identity = newestIdentity(options.identity, directories.identity);
  let bootTimingsMs = options.bootTimingsMs ?? {};
  const makeWork = async (): Promise<AgentWork> => {
    const { AgentWork } = await import("./agent-work.ts");
    return new AgentWork({
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
  const early = existsSync(directories.desiredPod) ? await makeWork() : undefined;
  const ready = Promise.withResolvers<void>();
  let isEnding = false;
  let working: Promise<AgentWork> | undefined;
  const begin = async (): Promise<AgentWork> => await (working ??= work());
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

  async function work(): Promise<AgentWork> {
    const made = early ?? (await makeWork());
    made.begin(options.loadParts ?? (() => loadParts({ directories, logger, clock })));
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
