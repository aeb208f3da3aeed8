import { readFile } from "node:fs/promises";
import { OptionError, systemClock, type Logger, type OptionValues } from "@kip/base";
import { createApiClient, loadKubeConfig, type ApiClient, type KubeConfig } from "@kip/k8s-client";

/** The program that {@link openClient} makes a client for. */
export interface ClientProgram {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Name and version, `kip/0.1.0`. */
  readonly userAgent: string;
  readonly logger: Logger;
}

/** The kubeconfig that `--kubeconfig` or the environment names, and a client of its API server; close it. */
export async function openClient(
  options: OptionValues,
  { env, userAgent, logger }: ClientProgram,
): Promise<{ readonly config: KubeConfig; readonly client: ApiClient }> {
  const config = await loadKubeConfig({ env, path: options.text("kubeconfig") });
  return { config, client: createApiClient(config, { userAgent, logger, clock: systemClock }) };
}

/**
 * Certificate and key of `--tls-cert-file` and `--tls-private-key-file`; undefined without both.
 *
 * @throws {OptionError} `OPTION_MISSING` if one is not given; `OPTION_INVALID`, with Node's error as the cause, if a
 *   file cannot be read
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
 * The text of the file that an option names.
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
