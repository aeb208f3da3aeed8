import { registryLogIns, type DesiredRegistry } from "@kip/agent-api";
import { isCodedError, type Logger } from "@kip/base";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Secret } from "@kip/k8s-types";
import {
  dockerConfigCredentials,
  formatReference,
  type CredentialSource,
  type RegistryConfig,
} from "@kip/oci-image";
import { mergeRegistries } from "../dispatch/registries.ts";
import type { WantedImage } from "./wanted-images.ts";

/** Settings with which the cache accesses registries. */
export interface RegistrySettings {
  /** Registries in the configuration. */
  readonly registries: readonly DesiredRegistry[];
  /** A file of `docker login`. */
  readonly dockerConfig: string | undefined;
  /** `PATH` for its credential helpers. */
  readonly path?: string | undefined;
}

/**
 * The registries for an image, once for each login, in the order in which a cell tries them: the pods' pull secrets, the
 * configured account, the file of `docker login`.
 *
 * @param client reads pull secrets; without it, they are ignored
 */
export async function imageLogIns(
  image: Pick<WantedImage, "reference" | "pullSecrets">,
  { registries, dockerConfig, path }: RegistrySettings,
  { client, logger }: { readonly client: ApiClient | undefined; readonly logger: Logger },
): Promise<readonly (readonly RegistryConfig[])[]> {
  const pullSecrets: unknown[] = [];
  for (const secret of client ? image.pullSecrets : []) {
    const document = client && (await readSecret(client, secret, logger));
    if (document !== undefined) pullSecrets.push(document);
  }
  const { reference } = image;
  const merged = mergeRegistries([formatReference(reference)], { pullSecrets, own: registries });
  const all = registryLogIns(merged, reference);
  if (dockerConfig === undefined) return all;
  const credentials = dockerConfigCredentials(dockerConfig, { path });
  return all.map((each) => withCredentials(each, reference.registry, credentials));
}

/** Adds a source of credentials to the entries of a registry and its mirrors. Creates missing entries. */
function withCredentials(
  registries: readonly RegistryConfig[],
  registry: string,
  credentials: CredentialSource,
): readonly RegistryConfig[] {
  const { mirrors = [] } = registries.find(({ host }) => host === registry) ?? {};
  const hosts = [registry, ...mirrors.map((url) => URL.parse(url)?.host ?? url)];
  const missing = hosts.filter((host) => registries.every((each) => each.host !== host));
  const all = [...registries, ...missing.map((host) => ({ host }))];
  return all.map((each) => (hosts.includes(each.host) ? { ...each, credentials } : each));
}

async function readSecret(client: ApiClient, secret: string, logger: Logger): Promise<unknown> {
  const [namespace = "", name = ""] = secret.split("/");
  try {
    const { data = {} } = await client.get<Secret>(paths.secrets(namespace, name));
    const current = data[".dockerconfigjson"];
    const text = Buffer.from(current ?? data[".dockercfg"] ?? "", "base64").toString("utf8");
    return parse(text);
  } catch (error) {
    if (!isCodedError(error)) throw error;
    logger.warn("Could not read an image pull secret", { secret, err: error });
    return undefined;
  }
}

/** Drops the error of invalid JSON, which quotes a part of the text. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
