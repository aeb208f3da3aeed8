import { once } from "node:events";
import { lstat, readdir, statfs } from "node:fs/promises";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import path from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { formatBytes, isSystemError } from "@kip/base";

/** Options of {@link openPushGate}. */
export interface PushGateOptions {
  /** TCP port at 127.0.0.1. */
  readonly port: number;
  /** Unix socket of the registry that stores the images. */
  readonly socket: string;
  /** Folder whose size is limited. */
  readonly dataDir: string;
  /** Maximum size of the folder, bytes. */
  readonly limitBytes: number;
  /** Free space to keep on its file system, bytes. */
  readonly reserveBytes: number;
}

const writingMethods: readonly string[] = ["POST", "PUT", "PATCH"];
/** Names of this computer as its users write them. A web page that is directed here by DNS sends another name. */
const hostNames = /^(localhost|127\.0\.0\.1|kip\.local)(:\d+)?$/i;

/**
 * Lets users of this computer push to the local registry while there is enough disk space. A registry has no limit of its own.
 *
 * A push over the limit is refused with status 403 and the registry error `DENIED`, even in the middle of a blob.
 *
 * @throws the system's error if it cannot listen at the port
 */
export async function openPushGate(options: PushGateOptions): Promise<AsyncDisposable> {
  const space = new Space(options);
  const server = createServer((incoming, response) => {
    serve(incoming, response, options.socket, space).catch(() => response.destroy());
  });
  server.requestTimeout = 0; // a large blob may take minutes
  server.listen(options.port, "127.0.0.1");
  await once(server, "listening");
  server.on("error", () => {}); // a connection could not be accepted
  return {
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function serve(
  incoming: IncomingMessage,
  response: ServerResponse,
  socketPath: string,
  space: Space,
): Promise<void> {
  const { method = "GET", url: target = "/", headers } = incoming;
  if (!hostNames.test(headers.host ?? "")) {
    return refuse(response, 403, `"${headers.host}" is not a name of this computer`);
  }
  if (writingMethods.includes(method)) {
    // An upload that began with an earlier process of this program continues without a POST.
    if (method === "POST" || !space.isMeasured) await space.measure();
    if (space.isFull) return refuse(response, 403, space.complaint);
  }
  const { expect: _answeredAlready, connection: _own, ...passed } = headers;
  const outgoing = request({ socketPath, method, path: target, headers: passed });
  const answered = once(outgoing, "response") as Promise<[IncomingMessage]>;
  answered.catch(() => {});
  try {
    const sent = pipeline(incoming, space.counter(), outgoing);
    // A registry may answer before it has read the whole request.
    const [answer] = await Promise.race([answered, sent.then(async () => await answered)]);
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    await pipeline(answer, response);
  } catch {
    outgoing.destroy();
    if (space.isFull) refuse(response, 403, space.complaint);
    else refuse(response, 502, "The local registry does not answer");
  }
}

/** Responds with an error in the registries' format, if no response was sent yet. */
function refuse(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) return void response.destroy();
  const code = status === 403 ? "DENIED" : "UNAVAILABLE";
  // The rest of the request is not read, so the connection has to close.
  response.writeHead(status, { "content-type": "application/json", connection: "close" });
  response.end(JSON.stringify({ errors: [{ code, message }] }));
}

/** The space that pushes may still use. */
class Space {
  readonly #options: PushGateOptions;
  #left: number | undefined;

  constructor(options: PushGateOptions) {
    this.#options = options;
  }

  get isMeasured(): boolean {
    return this.#left !== undefined;
  }

  get isFull(): boolean {
    return (this.#left ?? 1) <= 0;
  }

  get complaint(): string {
    const { limitBytes, reserveBytes } = this.#options;
    return `The local registry may hold ${formatBytes(limitBytes)}, and leaves ${formatBytes(reserveBytes)} of the disk free; kip down empties it`;
  }

  /** Counts the bytes that pass. Data over the limit is read and dropped, so that the client gets to read the response. */
  counter(): Transform {
    let isOver = false;
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.#left = (this.#left ?? Infinity) - chunk.length;
        isOver ||= this.isFull;
        if (isOver) done();
        else done(null, chunk);
      },
      flush: (done) => done(isOver ? new Error(this.complaint) : null),
    });
  }

  /** Measures the folder and the free disk space. */
  async measure(): Promise<void> {
    const { dataDir, limitBytes, reserveBytes } = this.#options;
    const [used, disk] = await Promise.all([sizeBytes(dataDir), statfs(dataDir)]);
    this.#left = Math.min(limitBytes - used, disk.bavail * disk.bsize - reserveBytes);
  }
}

/** Bytes in all files below a folder, while others change it. */
async function sizeBytes(folder: string): Promise<number> {
  let total = 0;
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(noneIfGone)) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) total += await sizeBytes(name);
    else if (entry.isFile()) total += (await lstat(name).catch(() => undefined))?.size ?? 0;
  }
  return total;
}

function noneIfGone(error: unknown): [] {
  if (isSystemError(error, "ENOENT")) return [];
  throw error;
}
