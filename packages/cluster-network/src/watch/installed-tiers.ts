import { isNotFound, type ApiClient } from "@kip/k8s-client";
import { tierGroup, tierPath, tierResources, type TierResource } from "./tier-kinds.ts";

/** A kind of administrators' policies that the API server serves. */
export interface InstalledTier {
  readonly kind: TierResource["kind"];
  /** Its resource name in RBAC. */
  readonly resource: string;
  /** The path of all its objects. */
  readonly path: string;
}

/** The kinds of administrators' policies that are installed. Every user has the rights for this. @throws {K8sError} */
export async function installedTiers(
  client: ApiClient,
  signal: AbortSignal,
): Promise<readonly InstalledTier[]> {
  const versions = [...new Set(tierResources.flatMap((each) => each.versions))];
  const lists = await Promise.all(
    versions.map(async (version) => [version, await resourcesOf(client, version, signal)] as const),
  );
  const served = new Map(lists);
  return tierResources.flatMap((each) => {
    const version = each.versions.find((name) => served.get(name)?.has(each.resource) === true);
    if (version === undefined) return [];
    const resource = `${each.resource}.${tierGroup}`;
    return [{ kind: each.kind, resource, path: tierPath(each, version) }];
  });
}

async function resourcesOf(
  client: ApiClient,
  version: string,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  try {
    const path = `/apis/${tierGroup}/${version}`;
    const list = await client.get<{ resources?: readonly { name: string }[] }>(path, { signal });
    return new Set(list.resources?.map(({ name }) => name));
  } catch (error) {
    if (isNotFound(error)) return new Set();
    throw error;
  }
}
