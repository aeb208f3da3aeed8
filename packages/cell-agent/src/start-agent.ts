import { agentPort, decodeCellIdentity, type CellIdentity } from "@kip/agent-api";
import { errorText, systemClock, type Clock, type Logger } from "@kip/base";
import { agentDirectories } from "./agent-directories.ts";
import { loadParts, type AgentParts } from "./agent-parts.ts";
import { readJson, writeJson } from "./pod/pod-store.ts";
import { PodSupervisor } from "./pod/pod-supervisor.ts";
import { agentHandler } from "./server/agent-handler.ts";
import { listen } from "./server/agent-server.ts";
import { StatusStream } from "./server/status-stream.ts";

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
  /** Loads what the agent works with; called after it listens. @default crun, conmon and the image store */
  readonly loadParts?: () => Promise<AgentParts>;
}

/** An agent that listens. */
export interface RunningAgent extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
  /** Resolves when containers of an earlier life are taken over; fails when the parts cannot be loaded. */
  readonly ready: Promise<void>;
  /** Stops listening and lets go of the containers, which go on running. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts the agent: resolves as soon as it listens, which is what kip waits for; the runtime and the
 * image store are loaded meanwhile, and containers that an agent before it left are taken over.
 *
 * @throws {KipError} code `AGENT_LISTEN_FAILED` when the port cannot be opened
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { stateDir, runDir, logger } = options;
  const clock = options.clock ?? systemClock;
  const directories = agentDirectories(stateDir, runDir);
  const status = new StatusStream(() => supervisor.report());
  const supervisor = new PodSupervisor({
    directories,
    logger,
    clock,
    onChange: () => status.changed(),
  });
  let identity = newestIdentity(options.identity, directories.identity);
  let bootTimingsMs = options.bootTimingsMs ?? {};
  const parts = Promise.withResolvers<AgentParts>();
  const server = await listen({
    identity,
    port: options.port ?? agentPort,
    ...(options.host !== undefined && { host: options.host }),
    logger,
    handler: agentHandler({
      supervisor,
      status,
      runtime: async () => (await parts.promise).runtime,
      agentVersion: options.agentVersion,
      identity: () => identity,
      setIdentity: (newer) => {
        server.setIdentity(newer);
        writeJson(directories.identity, newer);
        identity = newer;
      },
      bootTimingsMs: () => bootTimingsMs,
      clock,
      logger,
    }),
  });
  bootTimingsMs = {
    ...bootTimingsMs,
    listening: Math.round(monotonicMs() - (options.startedAtMs ?? 0)),
  };
  logger.info("Agent listens", { port: server.port, cell: identity.cellName, ...bootTimingsMs });
  const load = options.loadParts ?? (() => loadParts({ directories, logger, clock }));
  // Requests that need a part wait for it; they fail with the reason if it cannot be loaded.
  load().then(parts.resolve, parts.reject);
  const ready = parts.promise.then((loaded) => supervisor.begin(loaded));
  ready.catch((error: unknown) => {
    logger.error("Agent cannot work", { err: error });
    supervisor.fail(`The agent of the cell cannot work: ${errorText(error)}`);
  });
  return {
    port: server.port,
    ready,
    [Symbol.asyncDispose]: async () => {
      status[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
      await ready.catch(() => {});
      await supervisor[Symbol.asyncDispose]();
    },
  };
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
