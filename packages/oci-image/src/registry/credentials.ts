import { readFile } from "node:fs/promises";
import { decode, isSystemError, runCommand, Secret, CommandError } from "@kip/base";
import { ImageError } from "../errors.ts";

/** Credentials for a registry. */
export interface RegistryCredentials {
  /** User name, or {@link identityUser} if the password is an identity token. */
  readonly username: string;
  readonly password: string | Secret;
}

/** The user name that credential helpers return for an identity token. */
export const identityUser = "<token>";

/** Returns credentials for a registry, or nothing. Called when the registry requires a log-in. */
export type CredentialSource = (
  host: string,
  signal?: AbortSignal,
) => Promise<RegistryCredentials | undefined>;

const account = decode.object({
  auth: decode.optional(decode.string),
  username: decode.optional(decode.string),
  password: decode.optional(decode.string),
  identitytoken: decode.optional(decode.string),
});

const configFile = decode.object({
  auths: decode.optional(decode.map(account)),
  credHelpers: decode.optional(decode.map(decode.string)),
  credsStore: decode.optional(decode.string),
});

const helperAnswer = decode.object({ Username: decode.string, Secret: decode.string });

/** Docker Hub's key in files written by `docker login`. */
const dockerHubKey = "https://index.docker.io/v1/";
const helperTimeoutMs = 30_000;

/**
 * Reads credentials from a file of `docker login` (`~/.docker/config.json`). Sources, in order: the registry's credential
 * helper, its entry in `auths`, the default credential store. If the file does not exist, there are no credentials.
 *
 * @param options.path the `PATH` for looking up helper programs
 *
 * @example
 * ```ts
 * import { mkdtempDisposable, writeFile } from "node:fs/promises";
 * import { dockerConfigCredentials } from "@kip/oci-image";
 *
 * await using folder = await mkdtempDisposable("/tmp/kip-example-");
 * const auths = { "registry.example": { username: "ann", password: "secret" } };
 * await writeFile(`${folder.path}/config.json`, JSON.stringify({ auths }));
 * const credentials = dockerConfigCredentials(`${folder.path}/config.json`);
 * assert.equal((await credentials("registry.example"))?.username, "ann");
 * assert.equal(await credentials("other.example"), undefined);
 * ```
 */
export function dockerConfigCredentials(
  file: string,
  options: { readonly path?: string | undefined } = {},
): CredentialSource {
  return async (host, signal) => {
    const text = await readFile(file, "utf8").catch((error: unknown) => {
      if (isSystemError(error, "ENOENT")) return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const config = readConfig(text, file);
    const keys = host === "docker.io" ? [host, dockerHubKey] : [host];
    const helper = keys.map((key) => config.credHelpers?.[key]).find((name) => name !== undefined);
    const asked = { ...options, signal };
    if (helper !== undefined) return await askHelper(helper, keys.at(-1) ?? host, asked);
    const entry = Object.entries(config.auths ?? {}).find(
      ([key]) => keys.includes(key) || hostOf(key) === host,
    );
    const known = entry && accountOf(entry[1]);
    if (known) return known;
    if (config.credsStore === undefined || config.credsStore === "") return undefined;
    return await askHelper(config.credsStore, keys.at(-1) ?? host, asked);
  };
}

/** Calls a program `docker-credential-<name>` with the protocol of docker-credential-helpers. */
async function askHelper(
  name: string,
  key: string,
  options: { readonly path?: string | undefined; readonly signal?: AbortSignal | undefined },
): Promise<RegistryCredentials | undefined> {
  if (!/^[\w.-]+$/.test(name)) throw badHelper(name, "its name is not a valid name of a program");
  const { path, signal } = options;
  try {
    const { stdout } = await runCommand(`docker-credential-${name}`, ["get"], {
      input: key,
      timeoutMs: helperTimeoutMs,
      env: path === undefined ? undefined : { PATH: path },
      signal,
    });
    const { Username: username, Secret: password } = helperAnswer(JSON.parse(stdout), "");
    return { username, password: new Secret(password) };
  } catch (error) {
    signal?.throwIfAborted();
    // In this protocol, status 1 and a sentence on standard output mean that there are no credentials.
    if (CommandError.is(error) && error.exitCode === 1) return undefined;
    throw badHelper(name, "it gave no credentials", error);
  }
}

function badHelper(name: string, reason: string, cause?: unknown): Error {
  return new ImageError(
    "REGISTRY_UNAUTHORIZED",
    `credential helper ${JSON.stringify(name)} cannot be used: ${reason}`,
    { cause, remedy: `See that docker-credential-${name} is installed and runs` },
  );
}

function readConfig(text: string, file: string): ReturnType<typeof configFile> {
  try {
    return configFile(JSON.parse(text), "");
  } catch (error) {
    // The text may contain secrets, so the error only shows the position.
    throw new ImageError(
      "REGISTRY_UNAUTHORIZED",
      `"${file}" is not a configuration of docker login`,
      {
        remedy: "Write it again with docker login",
        cause: error instanceof SyntaxError ? undefined : error,
      },
    );
  }
}

function accountOf(entry: ReturnType<typeof account>): RegistryCredentials | undefined {
  if (entry.identitytoken !== undefined && entry.identitytoken !== "") {
    return { username: identityUser, password: new Secret(entry.identitytoken) };
  }
  if (entry.username !== undefined && entry.username !== "") {
    return { username: entry.username, password: new Secret(entry.password ?? "") };
  }
  const plain = Buffer.from(entry.auth ?? "", "base64").toString("utf8");
  const colon = plain.indexOf(":");
  if (colon < 1) return undefined;
  return { username: plain.slice(0, colon), password: new Secret(plain.slice(colon + 1)) };
}

/** Old files have URLs as keys. */
function hostOf(key: string): string | undefined {
  const url = URL.parse(key);
  return url?.protocol === "https:" || url?.protocol === "http:" ? url.host : undefined;
}
