import { defined } from "@kip/base";
import type { DesiredImageSettings, DesiredRegistry } from "@kip/agent-api";
import { mountWords } from "./keys/kinds.ts";
import type { ProviderDocument } from "./provider-config.ts";

/** Default path of the shared cache on cells. */
const defaultCachePath = "/var/cache/images";

/** The registries in the form that is sent to cells. */
export function registrySettings(
  registries: NonNullable<ProviderDocument["registries"]>,
): readonly DesiredRegistry[] {
  return registries.map(({ insecure = false, host = "", ...entry }) => {
    const registry = { host, ...entry };
    return insecure ? { ...registry, endpoint: entry.endpoint ?? `http://${host}` } : registry;
  });
}

type ImageSection = NonNullable<ProviderDocument["images"]>;
type CacheSection = NonNullable<ImageSection["cache"]>;
type CellConfig = NonNullable<NonNullable<ProviderDocument["cells"]>["cellConfig"]>;

/** The image settings of cells, from the section `images` and the original's keys in `cells.cellConfig`. */
export function imageSettings(
  { cache: own, proxy }: ImageSection,
  cellConfig: CellConfig,
): DesiredImageSettings | undefined {
  const cache = own ?? cacheOfOriginal(cellConfig);
  if (!cache && !proxy) return undefined;
  return { ...(cache && { cache: cacheSettings(cache) }), ...(proxy && proxySettings(proxy)) };
}

function cacheOfOriginal(config: CellConfig): CacheSection | undefined {
  const { imageCacheEndpoint: nfs, imageCacheMountDir: path = "/nfs" } = config;
  if (nfs === undefined) return undefined;
  return { nfs, path, options: mountWords(config.imageCacheMountOpts ?? "") };
}

function cacheSettings(cache: CacheSection): NonNullable<DesiredImageSettings["cache"]> {
  const { path = defaultCachePath, nfs, options = [] } = cache;
  if (nfs === undefined) return { path };
  return options.length > 0 ? { path, nfs, options } : { path, nfs };
}

function proxySettings(
  proxy: NonNullable<ImageSection["proxy"]>,
): Pick<DesiredImageSettings, "proxy"> {
  const { http, https, no = [] } = proxy;
  return {
    proxy: defined({
      HTTP_PROXY: http,
      HTTPS_PROXY: https,
      NO_PROXY: no.length > 0 ? no.join(",") : undefined,
    }),
  };
}
