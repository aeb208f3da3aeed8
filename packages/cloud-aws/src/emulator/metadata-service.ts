import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { systemClock, type Clock } from "@kip/base";

/** What the service returns to one machine. */
export interface MetadataEntry {
  readonly userData: Uint8Array;
  /** Paths below `latest/meta-data/` and their content. */
  readonly paths: ReadonlyMap<string, string>;
}

interface Session {
  readonly entry: MetadataEntry;
  /** On the monotonic clock, milliseconds. */
  readonly endsAt: number;
}

const tokenHeader = "x-aws-ec2-metadata-token";
const lifetimeHeader = "x-aws-ec2-metadata-token-ttl-seconds";
const longestSeconds = 21_600;
/**
 * How long an unknown machine's request waits, milliseconds. A machine may ask before its launch is complete, which takes moto
 * less than a second.
 */
const unknownMs = 5000;

/**
 * EC2's instance metadata service, version 2 only. Each machine reads its own metadata, by the address of the request, with a
 * session token that no other machine can use. It only has the entries that were set.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
 */
export class MetadataService {
  readonly server: Server;
  readonly #clock: Clock;
  readonly #entries = new Map<string, MetadataEntry>();
  readonly #sessions = new Map<string, Session>();
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
    this.server = createServer((request, response) => {
      void this.#serve(request, response).catch(() => request.socket.destroy());
    });
  }

  /** Serves this entry to the machine at these addresses from now on. */
  set(addresses: readonly string[], entry: MetadataEntry): void {
    for (const address of addresses) {
      this.#entries.set(address, entry);
      for (const wake of this.#waiting.get(address) ?? []) wake();
    }
  }

  /** Forgets the machine at these addresses and its sessions. */
  delete(addresses: readonly string[]): void {
    const ended = addresses.map((address) => this.#entries.get(address));
    for (const address of addresses) this.#entries.delete(address);
    for (const [token, { entry }] of this.#sessions)
      if (ended.includes(entry)) this.#sessions.delete(token);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const entry = await this.#entryOf(request.socket.remoteAddress ?? "");
    const { status, body } = entry ? this.#answer(request, entry) : notFound;
    response.writeHead(status, { "content-type": "text/plain" }).end(body);
  }

  #answer({ method, url = "", headers }: IncomingMessage, entry: MetadataEntry): MetadataAnswer {
    if (url === "/latest/api/token") {
      // A request that a proxy has forwarded may come from another machine.
      if (headers["x-forwarded-for"] !== undefined) return { status: 403, body: "" };
      return method === "PUT"
        ? this.#open(headers[lifetimeHeader], entry)
        : { status: 405, body: "" };
    }
    const session = this.#sessions.get(String(headers[tokenHeader]));
    if (session?.entry !== entry || session.endsAt <= this.#clock.monotonic())
      return { status: 401, body: "" };
    if (method !== "GET") return { status: 405, body: "" };
    return read(url, entry);
  }

  #open(lifetime: string | string[] | undefined, entry: MetadataEntry): MetadataAnswer {
    const seconds = Number(lifetime);
    if (!Number.isInteger(seconds) || seconds < 1 || seconds > longestSeconds)
      return { status: 400, body: "" };
    const now = this.#clock.monotonic();
    for (const [token, { endsAt }] of this.#sessions)
      if (endsAt <= now) this.#sessions.delete(token);
    const token = randomBytes(32).toString("base64url");
    this.#sessions.set(token, { entry, endsAt: now + seconds * 1000 });
    return { status: 200, body: token };
  }

  async #entryOf(address: string): Promise<MetadataEntry | undefined> {
    const known = this.#entries.get(address);
    if (known) return known;
    const waiting = this.#waiting.get(address) ?? new Set();
    this.#waiting.set(address, waiting);
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.add(resolve);
    const stop = new AbortController();
    await Promise.race([promise, this.#clock.sleep(unknownMs, stop.signal).catch(() => {})]);
    stop.abort();
    waiting.delete(resolve);
    if (waiting.size === 0) this.#waiting.delete(address);
    return this.#entries.get(address);
  }
}

interface MetadataAnswer {
  readonly status: number;
  readonly body: string | Uint8Array;
}

const notFound: MetadataAnswer = { status: 404, body: "" };

function read(url: string, { userData, paths }: MetadataEntry): MetadataAnswer {
  if (url === "/latest/user-data")
    return userData.length === 0 ? notFound : { status: 200, body: userData };
  const path = /^\/latest\/meta-data\/(.+)$/.exec(url)?.[1] ?? "";
  const value = paths.get(path);
  return value === undefined ? notFound : { status: 200, body: value };
}
