import type { ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import {
  AgentError,
  decodeCellIdentity,
  decodeDesiredPod,
  type CellIdentity,
} from "@kip/agent-api";
import { begunStream, type Clock, type Logger, type ProcessStreams } from "@kip/base";
import type { ContainerRuntime, LogReadOptions } from "@kip/oci-runtime";
import { agentStats } from "../figures/agent-stats.ts";
import type { AgentWorker } from "../pod/agent-worker.ts";
import { answerJson, decodeRequest, invalidRequest, readJson } from "./answers.ts";
import type { AgentRequest, Handler } from "./agent-server.ts";
import { CommandFrames } from "./command-frames.ts";
import { servePortForward } from "./port-forward.ts";
import { serveProcess } from "./serve-process.ts";
import { mergedPieces } from "./small-pieces.ts";
import type { StatusStream } from "./status-stream.ts";

/** Dependencies of the handlers. */
export interface HandlerOptions {
  readonly worker: AgentWorker;
  readonly status: StatusStream;
  /** Returns the runtime once it is loaded. */
  readonly runtime: () => Promise<ContainerRuntime>;
  readonly identity: () => CellIdentity;
  readonly setIdentity: (identity: CellIdentity) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

type Route = (
  stream: ServerHttp2Stream,
  request: AgentRequest,
  options: HandlerOptions & { readonly name: string },
) => Promise<void>;

/** Handlers by method and path. `*` is the name of a container. agent-api's routes.ts documents them. */
const routes: Readonly<Record<string, Route>> = {
  "PUT /v1/pod": putPod,
  "DELETE /v1/pod": deletePod,
  "GET /v1/status": async (stream, _request, { status }) => status.serve(stream),
  "GET /v1/logs/*": logs,
  "POST /v1/exec/*": exec,
  "POST /v1/attach/*": attach,
  "POST /v1/portforward": portForward,
  "POST /v1/network": async (stream, _request, { worker }) => await worker.network.serve(stream),
  "GET /v1/stats": async (stream, _request, options) =>
    answerJson(stream, 200, await agentStats(await options.runtime(), options)),
  "PUT /v1/identity": putIdentity,
};

/** Handles the requests from kip to the agent, except `GET /v1/info`. */
export function agentHandler(options: HandlerOptions): Handler {
  return async (stream, request) => {
    const parts = request.path.split("/");
    const name = parts.length === 4 ? decodeURIComponent(parts[3] ?? "") : "";
    const path = parts.length === 4 ? `${parts.slice(0, 3).join("/")}/*` : request.path;
    const route = routes[`${request.method} ${path}`];
    if (!route) {
      throw new AgentError(
        "AGENT_NOT_FOUND",
        `Cannot serve ${request.method} ${request.path}: there is no such call`,
        { remedy: "Use the same version of kip and agent" },
      );
    }
    await route(stream, request, { ...options, name });
  };
}

async function putPod(
  stream: ServerHttp2Stream,
  _request: AgentRequest,
  { worker }: HandlerOptions,
): Promise<void> {
  const body = await readJson(stream);
  worker.put(decodeRequest(() => decodeDesiredPod(body, "pod")));
  answerJson(stream, 202, { generation: worker.pod?.generation });
}

async function deletePod(
  stream: ServerHttp2Stream,
  { query }: AgentRequest,
  { worker }: HandlerOptions,
): Promise<void> {
  worker.remove(readNumber(query, "graceSeconds") ?? 0);
  answerJson(stream, 202);
}

async function logs(
  stream: ServerHttp2Stream,
  { query }: AgentRequest,
  options: HandlerOptions & { readonly name: string },
): Promise<void> {
  const log = options.worker.log(options.name, query.has("previous"));
  const runtime = await options.runtime();
  const gone = new AbortController();
  stream.once("close", () => gone.abort(new Error("The client has gone")));
  const read = readLogOptions(query);
  const source = runtime.logs(log.id, log.path, read, gone.signal);
  // A container that could not be created has no log, which is reported as an error.
  const begun = read.follow === true ? undefined : await begunStream(source);
  stream.respond({ ":status": 200, "content-type": "text/plain" });
  const { signal } = gone;
  const merged = (lines: Readable): AsyncIterable<Buffer> => mergedPieces(lines, signal);
  const sent = begun ? pipeline(begun, stream) : pipeline(source, merged, stream, { signal });
  await sent.catch((error: unknown) => {
    if (!gone.signal.aborted) throw error;
  });
}

function readLogOptions(query: URLSearchParams): LogReadOptions {
  const tailLines = readNumber(query, "tailLines");
  const tailBytes = readNumber(query, "tailBytes");
  const limitBytes = readNumber(query, "limitBytes");
  const since = query.get("sinceTime");
  const sinceTimeMs = since === null ? undefined : Date.parse(since);
  if (Number.isNaN(sinceTimeMs)) throw invalidRequest("sinceTime is not a valid time");
  return {
    follow: query.has("follow"),
    timestamps: query.has("timestamps"),
    tailLines,
    tailBytes,
    limitBytes,
    sinceTimeMs,
  };
}

async function exec(
  stream: ServerHttp2Stream,
  { query }: AgentRequest,
  options: HandlerOptions & { readonly name: string },
): Promise<void> {
  const words = query.getAll("command");
  const commandFrames = query.has("commandFrames") ? new CommandFrames() : undefined;
  if (words.length === 0 && !commandFrames) throw invalidRequest("no command");
  const id = options.worker.runningId(options.name);
  const runtime = await options.runtime();
  const run = async (streams: ProcessStreams, signal: AbortSignal) => {
    const command = commandFrames ? await commandFrames.command : words;
    return await runtime.exec(id, { command }, streams, signal);
  };
  await serveProcess(stream, query, { run, commandFrames, logger: options.logger });
}

async function attach(
  stream: ServerHttp2Stream,
  { query }: AgentRequest,
  options: HandlerOptions & { readonly name: string },
): Promise<void> {
  const id = options.worker.runningId(options.name);
  const runtime = await options.runtime();
  const run = async (streams: ProcessStreams, signal: AbortSignal) =>
    await runtime.attach(id, streams, signal);
  await serveProcess(stream, query, { run, logger: options.logger });
}

async function portForward(
  stream: ServerHttp2Stream,
  { query }: AgentRequest,
  { worker, logger }: HandlerOptions,
): Promise<void> {
  const port = readNumber(query, "port") ?? 0;
  if (port < 1 || port > 65_535) throw invalidRequest("port must be 1 to 65535");
  const fail = (reason: string): never => {
    throw new AgentError("AGENT_CONTAINER_NOT_RUNNING", `Cannot reach port ${port}: ${reason}`);
  };
  if (worker.running().size === 0) fail("no pod runs");
  // After the agent's start, its containers run before it knows their namespaces. The cell's own ports are not the pod's.
  const { networkNamespace } = worker.sandbox ?? fail("the agent of the cell is still starting");
  await servePortForward(stream, { port, networkNamespace, logger });
}

async function putIdentity(
  stream: ServerHttp2Stream,
  _request: AgentRequest,
  options: HandlerOptions,
): Promise<void> {
  const body = await readJson(stream);
  const identity = decodeRequest(() => decodeCellIdentity(body, "identity"));
  if (identity.cellName !== options.identity().cellName)
    throw invalidRequest(`this is cell "${options.identity().cellName}"`);
  try {
    options.setIdentity(identity);
  } catch (error) {
    throw invalidRequest("the certificate and key do not go together", error);
  }
  answerJson(stream, 204);
}

function readNumber(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0)
    throw invalidRequest(`${name} must be a whole number, 0 or more`);
  return value;
}
