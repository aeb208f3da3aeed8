import { readFile } from "node:fs/promises";
import { OptionError, systemClock, type Logger, type OptionValues } from "@kip/base";
import { createApiClient, loadKubeConfig, type ApiClient, type KubeConfig } from "@kip/k8s-client";

/** Facts about the program for {@link openClient}. */
export interface ClientProgram {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Name and version, `kip/0.1.0`. */
  readonly userAgent: string;
  readonly logger: Logger;
}

/**
 * Loads the kubeconfig from `--kubeconfig` or the environment, replaces its server if `MASTER_URI` is set, and creates a client
 * of the API server. The caller closes the client.
 */
export async function openClient(
  options: OptionValues,
  { env, userAgent, logger }: ClientProgram,
): Promise<{ readonly config: KubeConfig; readonly client: ApiClient }> {
  const found = await loadKubeConfig({ env, path: options.text("kubeconfig") });
  // `MASTER_URI` is the original's override of the server in the kubeconfig.
  const server = env["MASTER_URI"] ?? "";
  const config = server === "" ? found : withServer(found, server);
  return { config, client: createApiClient(config, { userAgent, logger, clock: systemClock }) };
}

/**
 * The authority for client certificates. Without a file: the one that the kubeconfig trusts, which in most clusters also signs
 * the API server's client certificate.
 */
export async function clientCaOf(options: OptionValues, config: KubeConfig): Promise<string> {
  if (options.text("client-ca-file") !== undefined)
    return readOptionFile(options, "client-ca-file");
  const { ca } = await config.credentials();
  if (ca) return ca.toString("utf8");
  throw new OptionError("OPTION_MISSING", "Cannot start: --client-ca-file is not given", {
    remedy: "Give the authority of the API server's client certificate with --client-ca-file",
  });
}

/**
 * Certificate and key from `--tls-cert-file` and `--tls-private-key-file`. Undefined if neither is given.
 *
 * @throws {OptionError} `OPTION_MISSING` if only one is given; `OPTION_INVALID`, with Node's error as the cause, if a file
 * cannot be read
 */
export async function certificatePair(
  options: OptionValues,
): Promise<{ readonly certificate: string; readonly key: string } | undefined> {
  const flags = ["tls-cert-file", "tls-private-key-file"] as const;
  if (flags.every((flag) => options.text(flag) === undefined)) return undefined;
  const [certificate, key] = await Promise.all([
    readOptionFile(options, flags[0]),
    readOptionFile(options, flags[1]),
  ]);
  return { certificate, key };
}

/**
 * The text of an option's file.
 *
 * @throws {OptionError} `OPTION_MISSING`; `OPTION_INVALID`, with Node's error as the cause, if it cannot be read
 */
export async function readOptionFile(options: OptionValues, flag: string): Promise<string> {
  const file = options.required(flag);
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new OptionError("OPTION_INVALID", `Cannot read --${flag} ${file}`, { cause });
  }
}

/** @throws {OptionError} `OPTION_INVALID` */
function withServer(config: KubeConfig, server: string): KubeConfig {
  if (!/^https?:$/.test(URL.parse(server)?.protocol ?? ""))
    throw new OptionError("OPTION_INVALID", `Cannot use MASTER_URI ${server}: a URL is expected`);
  return {
    ...config,
    server: server.replace(/\/$/, ""),
    credentials: async () => await config.credentials(),
    forget: (refused) => config.forget?.(refused),
  };
}
