import { systemClock, type Clock } from "@kip/base";
import { CloudInitError } from "./errors.ts";
import type { DataSource, InstanceData } from "./instance-data.ts";
import {
  endingTogether,
  hasAnswer,
  MetadataHttp,
  type MetadataAnswer,
  type MetadataHttpOptions,
} from "./metadata-http.ts";
import { maxUserDataBytes } from "./config/cloud-config.ts";

/** Options of {@link ImdsClient}. */
export interface ImdsClientOptions extends Partial<MetadataHttpOptions> {
  /** Requested lifetime of a session token, seconds, 1 to 21,600. @default 21,600 (six hours, the maximum) */
  readonly tokenTtlSeconds?: number | undefined;
}

/** A path of EC2's metadata service, with limits. */
interface ImdsRequest {
  /** Maximum size of the response, bytes. @default 64 KiB */
  readonly maxBytes?: number | undefined;
  /** Maximum number of requests, 1 or more. @default the client's */
  readonly attempts?: number | undefined;
  readonly signal: AbortSignal;
}

interface Session {
  /** Undefined if the service has no sessions. */
  readonly token: string | undefined;
  /** Monotonic time, milliseconds. */
  readonly endsAtMs: number;
}

const ec2BaseUrl = "http://169.254.169.254";
const tokenHeader = "x-aws-ec2-metadata-token";
const maxPublicKeys = 32;

/**
 * A client of EC2's instance metadata service, version 2. Each request has a session token, which is renewed before it expires
 * and if the service refuses it. If the service has no sessions (404, 405 or 501 for the token), requests have no token.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
 */
export class ImdsClient {
  readonly #http: MetadataHttp;
  readonly #clock: Clock;
  readonly #ttlSeconds: number;
  #session: Session | undefined;
  /** Shared by all requests that need a session. */
  #opening: Promise<Session> | undefined;

  constructor(options: ImdsClientOptions = {}) {
    this.#http = new MetadataHttp({ ...options, baseUrl: options.baseUrl ?? ec2BaseUrl });
    this.#clock = options.clock ?? systemClock;
    this.#ttlSeconds = options.tokenTtlSeconds ?? 21_600;
  }

  /**
   * Reads one path.
   *
   * @param path below `/latest`, such as `/meta-data/instance-id`
   * @returns undefined if the path does not exist (404)
   * @throws {CloudInitError} `METADATA_UNAVAILABLE`; `METADATA_INVALID` if the response is too large or a refusal
   */
  async read(path: string, request: ImdsRequest): Promise<Uint8Array | undefined> {
    const session = await this.#currentSession(request);
    let answer = await this.#get(path, session, request);
    // The token has expired early: the machine was suspended, or the service restarted.
    if (answer.status === 401) {
      if (this.#session === session) this.#session = undefined;
      answer = await this.#get(path, await this.#currentSession(request), request);
    }
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw refused(path, answer.status);
    return answer.body;
  }

  /** Like {@link read}, but returns trimmed text. */
  async readText(path: string, request: ImdsRequest): Promise<string | undefined> {
    const body = await this.read(path, request);
    return body && new TextDecoder().decode(body).trim();
  }

  async #get(path: string, session: Session, request: ImdsRequest): Promise<MetadataAnswer> {
    const headers = session.token === undefined ? {} : { [tokenHeader]: session.token };
    return await this.#http.send({ ...request, path: `/latest${path}`, headers });
  }

  async #currentSession(request: ImdsRequest): Promise<Session> {
    if (this.#session && this.#session.endsAtMs > this.#clock.monotonic()) return this.#session;
    this.#opening ??= this.#openSession(request).finally(() => (this.#opening = undefined));
    this.#session = await this.#opening;
    return this.#session;
  }

  async #openSession({ attempts, signal }: ImdsRequest): Promise<Session> {
    const startMs = this.#clock.monotonic();
    const path = "/latest/api/token";
    const headers = { "x-aws-ec2-metadata-token-ttl-seconds": `${this.#ttlSeconds}` };
    const answer = await this.#http.send({ path, method: "PUT", headers, attempts, signal });
    // Renewed after nine tenths of its lifetime, so that it does not expire on the way.
    const endsAtMs = startMs + this.#ttlSeconds * 900;
    if ([404, 405, 501].includes(answer.status)) return { token: undefined, endsAtMs };
    const token = new TextDecoder().decode(answer.body).trim();
    if (answer.status !== 200) throw refused("/api/token", answer.status);
    if (!/^[\x21-\x7e]{1,4096}$/.test(token))
      throw new CloudInitError(
        "METADATA_INVALID",
        "Cannot use EC2's metadata service: its session token is not one",
      );
    return { token, endsAtMs };
  }
}

/** User data and metadata from EC2's metadata service. @param client @default a client for the usual address */
export function createEc2Source(client: ImdsClient = new ImdsClient()): DataSource {
  return {
    name: "EC2",
    isAvailable: async (signal) =>
      await hasAnswer(
        signal,
        async () => await client.readText(instanceIdPath, { attempts: 1, signal }),
      ),
    read: async (signal) =>
      await endingTogether(signal, async (shared) => await readInstance(client, shared)),
  };
}

const instanceIdPath = "/meta-data/instance-id";

async function readInstance(client: ImdsClient, signal: AbortSignal): Promise<InstanceData> {
  const text = async (path: string): Promise<string | undefined> => {
    const value = await client.readText(`/meta-data/${path}`, { signal });
    return value === "" ? undefined : value;
  };
  const instanceId = await client.readText(instanceIdPath, { signal });
  if (instanceId === undefined || instanceId === "")
    throw new CloudInitError(
      "METADATA_INVALID",
      "Cannot use EC2's metadata: there is no instance-id",
    );
  const [userData, localHostname, privateIpv4, publicIpv4, publicIpv6, publicKeys] =
    await Promise.all([
      client.read("/user-data", { maxBytes: maxUserDataBytes, signal }),
      text("local-hostname"),
      text("local-ipv4"),
      text("public-ipv4"),
      text("ipv6"),
      readPublicKeys(text),
    ]);
  return {
    instanceId,
    userData: userData ?? new Uint8Array(),
    localHostname,
    publicKeys,
    // EC2 machines only have global IPv6 addresses.
    addresses: { privateIpv4, publicIpv4, publicIpv6 },
  };
}

/** Reads the list of keys, which has a line `<number>=<name>` for each. */
async function readPublicKeys(
  text: (path: string) => Promise<string | undefined>,
): Promise<readonly string[]> {
  const list = (await text("public-keys/")) ?? "";
  const numbers = list.split("\n").flatMap((line) => /^(\d{1,4})=/.exec(line)?.[1] ?? []);
  const keys: string[] = [];
  for (const number of numbers.slice(0, maxPublicKeys)) {
    const key = await text(`public-keys/${number}/openssh-key`);
    if (key !== undefined) keys.push(...key.split("\n").filter((line) => line.trim() !== ""));
  }
  return keys;
}

function refused(path: string, status: number): CloudInitError {
  return new CloudInitError(
    "METADATA_INVALID",
    `Cannot read "${path}" from EC2's metadata service: its status is ${status}`,
    {
      remedy: status === 403 ? "Enable the instance metadata service for this machine" : undefined,
    },
  );
}
