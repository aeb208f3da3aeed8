import { bytesOf, decode, defined, Secret, type Clock } from "@kip/base";
import { ImageError } from "../errors.ts";
import { identityUser } from "./credentials.ts";
import {
  maxRefusalBytes,
  readBeginning,
  readBody,
  type HttpExchange,
  type HttpRequest,
} from "./http-exchange.ts";
import { withLeastThroughput } from "./least-throughput.ts";
import type { RegistryConfig } from "./registry-config.ts";
import { refusalError } from "./registry-errors.ts";

/** A challenge in a `WWW-Authenticate` header (RFC 9110, 11.6.1). */
export interface Challenge {
  /** Lower case: `basic`, `bearer`. */
  readonly scheme: string;
  readonly parameters: ReadonlyMap<string, string>;
}

const tokenAnswer = decode.object({
  token: decode.optional(decode.string),
  access_token: decode.optional(decode.string),
});

/** Limit for the token service's response. */
const maxTokenBytes = 1024 * 1024;

/** Parses the challenges of a header. Skips invalid parts. */
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
 * Answers a challenge. Returns the value of the `Authorization` header for repeating the request.
 *
 * Credentials are only sent over plain HTTP if the registry's own URL starts with `http://`.
 *
 * @throws {ImageError} code `REGISTRY_UNAUTHORIZED`, and those for the token service's response
 */
export async function answerChallenge(
  header: string,
  exchange: HttpExchange,
  context: {
    readonly config: RegistryConfig;
    readonly baseUrl: URL;
    /** Requested if the challenge has no scope: `repository:<name>:pull`. */
    readonly scope: string;
    readonly clock: Clock;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<string> {
  const { config } = context;
  const challenges = parseChallenges(header);
  const bearer = challenges.find(({ scheme }) => scheme === "bearer");
  if (bearer) return `Bearer ${await fetchToken(bearer, exchange, context)}`;
  const isBasic = challenges.some(({ scheme }) => scheme === "basic");
  const found = isBasic ? await credentialsOf(config, context.signal) : undefined;
  if (found && found.username !== identityUser) return basicOf(found);
  const reason = isBasic
    ? `registry ${config.host} wants a user name and password, and has none for it`
    : `registry ${config.host} wants a way to log in that is not known: "${header.slice(0, 100)}"`;
  throw new ImageError("REGISTRY_UNAUTHORIZED", reason, {
    remedy: "Give the pod an imagePullSecret for this registry",
  });
}

/** Requests a token from the token service, as in the Docker registry token specification. */
async function fetchToken(
  { parameters }: Challenge,
  exchange: HttpExchange,
  context: Parameters<typeof answerChallenge>[2],
): Promise<string> {
  const { config, baseUrl, signal } = context;
  const url = realmUrl(parameters.get("realm"), config, baseUrl);
  const service = parameters.get("service");
  const scope = parameters.get("scope") ?? context.scope;
  const found = await credentialsOf(config, signal);
  const wanted = defined({ scope, service });
  const request =
    found?.username === identityUser
      ? refreshRequest(url, wanted, found.password)
      : tokenRequest(url, wanted, found);
  const response = await exchange.send({ ...request, signal });
  const paced = withLeastThroughput(bytesOf(response), {
    clock: context.clock,
    registry: url.host,
  });
  const status = response.statusCode ?? 0;
  // A redirect is also an error, because the credentials are only for this service.
  if (status !== 200) {
    const body = await readBeginning(paced, maxRefusalBytes);
    throw refusalError({ status, headers: response.headers, body }, config.host, "a token");
  }
  const body = await readBody(paced, maxTokenBytes);
  const token = readToken(body);
  // The token goes into a header, so only characters that RFC 6750 allows are accepted.
  if (/^[\w.~+/=-]+$/.test(token)) return token;
  throw new ImageError(
    "REGISTRY_UNAUTHORIZED",
    `the token service of ${config.host} gave no token`,
  );
}

/** Parameters of the requested token. */
type Wanted = Readonly<Record<string, string>>;

function tokenRequest(url: URL, wanted: Wanted, found: PlainCredentials | undefined): HttpRequest {
  for (const [key, value] of Object.entries(wanted)) url.searchParams.set(key, value);
  const authorization = found && { authorization: basicOf(found) };
  return { method: "GET", url, headers: { accept: "application/json", ...authorization } };
}

/** Exchanges an identity token with OAuth 2 (distribution's "oauth" specification). */
function refreshRequest(url: URL, wanted: Wanted, token: string): HttpRequest {
  const form = { grant_type: "refresh_token", client_id: "kip", ...wanted, refresh_token: token };
  const body = Buffer.from(new URLSearchParams(form).toString());
  const headers = {
    accept: "application/json",
    "content-type": "application/x-www-form-urlencoded",
    "content-length": `${body.length}`,
  };
  return { method: "POST", url, headers, body };
}

/** The token in the response. Empty if there is none. */
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
  throw new ImageError(
    "REGISTRY_UNAUTHORIZED",
    `registry ${config.host} sends us for a token to ${JSON.stringify(realm ?? "nowhere")}, which is not HTTPS`,
  );
}

interface PlainCredentials {
  readonly username: string;
  readonly password: string;
}

async function credentialsOf(
  config: RegistryConfig,
  signal: AbortSignal | undefined,
): Promise<PlainCredentials | undefined> {
  const isNamed = config.username !== undefined && config.username !== "";
  const found = isNamed ? config : await config.credentials?.(config.host, signal);
  const { username, password } = found ?? {};
  if (username === undefined || username === "") return undefined;
  return { username, password: password instanceof Secret ? password.reveal() : (password ?? "") };
}

function basicOf({ username, password }: PlainCredentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}
