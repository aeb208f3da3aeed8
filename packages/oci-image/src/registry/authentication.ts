import { decode, Secret, type Clock } from "@kip/base";
import { imageError } from "../errors.ts";
import { readBody, type HttpExchange } from "./http-exchange.ts";
import { withLeastThroughput } from "./least-throughput.ts";
import type { RegistryConfig } from "./registry-config.ts";
import { refusalError } from "./registry-errors.ts";

/** A challenge of a `WWW-Authenticate` header (RFC 9110, 11.6.1). */
export interface Challenge {
  /** Lower case: `basic`, `bearer`. */
  readonly scheme: string;
  readonly parameters: ReadonlyMap<string, string>;
}

const tokenAnswer = decode.object({
  token: decode.optional(decode.string),
  access_token: decode.optional(decode.string),
});

/** Reads the challenges of a header; what is no challenge is passed over. */
export function parseChallenges(header: string): readonly Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = [];
  const piece = /([\w!#$%&'*+.^`|~-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+)))?[\s,]*/g;
  for (const [, name = "", quoted, plain] of header.slice(0, 8192).matchAll(piece)) {
    const value = quoted?.replaceAll(/\\(.)/g, "$1") ?? plain;
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: new Map() });
    else challenges.at(-1)?.parameters.set(name.toLowerCase(), value);
  }
  return challenges;
}

/**
 * Answers a challenge: the value of the `Authorization` header to repeat the request with.
 *
 * Credentials go over plain HTTP only if the registry itself was named with `http://`.
 *
 * @throws {KipError} code `REGISTRY_UNAUTHORIZED`, and those of the token service's answer
 */
export async function answerChallenge(
  header: string,
  exchange: HttpExchange,
  context: {
    readonly config: RegistryConfig;
    readonly baseUrl: URL;
    /** Asked for if the challenge names no scope: `repository:<name>:pull`. */
    readonly scope: string;
    readonly clock: Clock;
    readonly signal?: AbortSignal;
  },
): Promise<string> {
  const { config } = context;
  const challenges = parseChallenges(header);
  const bearer = challenges.find(({ scheme }) => scheme === "bearer");
  if (bearer) return `Bearer ${await fetchToken(bearer, exchange, context)}`;
  const isBasic = challenges.some(({ scheme }) => scheme === "basic");
  const basic = isBasic ? await basicCredentials(config, context.signal) : undefined;
  if (isBasic && basic !== undefined) return basic;
  const reason = isBasic
    ? `registry ${config.host} wants a user name and password, and has none for it`
    : `registry ${config.host} wants a way to log in that is not known: "${header.slice(0, 100)}"`;
  throw imageError("REGISTRY_UNAUTHORIZED", reason, {
    remedy: "Give the pod an imagePullSecret for this registry",
  });
}

/** The token service of the Docker registry token specification. */
async function fetchToken(
  { parameters }: Challenge,
  exchange: HttpExchange,
  context: Parameters<typeof answerChallenge>[2],
): Promise<string> {
  const { config, baseUrl, signal } = context;
  const url = realmUrl(parameters.get("realm"), config, baseUrl);
  const service = parameters.get("service");
  if (service !== undefined) url.searchParams.set("service", service);
  url.searchParams.set("scope", parameters.get("scope") ?? context.scope);
  const basic = await basicCredentials(config, signal);
  const headers = {
    accept: "application/json",
    ...(basic !== undefined && { authorization: basic }),
  };
  const response = await exchange.send({ method: "GET", url, headers, ...(signal && { signal }) });
  const paced = withLeastThroughput(response as AsyncIterable<Uint8Array>, {
    clock: context.clock,
    registry: url.host,
  });
  const body = await readBody(paced, 1024 * 1024);
  const status = response.statusCode ?? 0;
  // A redirect is an error too: the credentials are for this service alone.
  if (status !== 200) {
    throw refusalError({ status, headers: response.headers, body }, config.host, "a token");
  }
  const token = readToken(body);
  // It becomes a header: nothing but what RFC 6750 allows in a token.
  if (/^[\w.~+/=-]+$/.test(token)) return token;
  throw imageError("REGISTRY_UNAUTHORIZED", `the token service of ${config.host} gave no token`);
}

/** Empty if there is none. */
function readToken(body: Buffer): string {
  try {
    const answer = tokenAnswer(JSON.parse(body.toString("utf8")), "");
    return answer.token ?? answer.access_token ?? "";
  } catch {
    return "";
  }
}

function realmUrl(realm: string | undefined, config: RegistryConfig, baseUrl: URL): URL {
  const url = URL.parse(realm ?? "");
  const isAllowed = url?.protocol === "https:" || url?.protocol === baseUrl.protocol;
  if (url && isAllowed) return url;
  throw imageError(
    "REGISTRY_UNAUTHORIZED",
    `registry ${config.host} sends us for a token to ${JSON.stringify(realm ?? "nowhere")}, which is not HTTPS`,
  );
}

async function basicCredentials(
  config: RegistryConfig,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const isNamed = config.username !== undefined && config.username !== "";
  const found = isNamed ? config : await config.credentials?.(config.host, signal);
  const { username, password } = found ?? {};
  if (username === undefined || username === "") return undefined;
  const plain = password instanceof Secret ? password.reveal() : (password ?? "");
  return `Basic ${Buffer.from(`${username}:${plain}`).toString("base64")}`;
}
