import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { decode, defined } from "@kip/base";
import type { DesiredImageSettings, DesiredRegistry } from "@kip/agent-api";
import { ProviderError } from "../errors.ts";

const { boolean, list, object, optional, string } = decode;
const strict = { unknownKeys: "reject" } as const;

const decodeRegistry = object(
  {
    host: string,
    endpoint: optional(string),
    insecure: optional(boolean),
    mirrors: optional(list(string)),
    username: optional(string),
    password: optional(string),
    ca: optional(string),
  },
  strict,
);

/** Decodes the section `registries` of `provider.yaml`. */
export const decodeRegistries = list(decodeRegistry);

/** Decodes the section `images`. */
export const decodeImages = object(
  {
    cache: optional(
      object(
        { path: optional(string), nfs: optional(string), options: optional(list(string)) },
        strict,
      ),
    ),
    dockerConfig: optional(string),
    proxy: optional(
      object(
        { http: optional(string), https: optional(string), no: optional(list(string)) },
        strict,
      ),
    ),
  },
  strict,
);

/** Where cells have the shared cache by default. */
const defaultCachePath = "/var/cache/images";

/**
 * The registries in the form that is sent to cells.
 *
 * @throws {ProviderError} `CONFIG_INVALID`
 */
export function registrySettings(
  registries: decode.Decoded<typeof decodeRegistries>,
): readonly DesiredRegistry[] {
  const seen = new Set<string>();
  return registries.map(({ insecure = false, ...entry }, index) => {
    const at = `registries[${index}]`;
    const { host, endpoint, mirrors = [], ca } = entry;
    if (!/^[a-z0-9][a-z0-9.-]*(:\d{1,5})?$|^\[[0-9a-f:]+\](:\d{1,5})?$/.test(host)) {
      const isUrl = host.includes("://");
      fail(`${at}.host`, `"${host}" is not a host as in image names, lower case, with its port`, {
        remedy: isUrl ? "Write the URL as endpoint" : "Write for example registry.example.com:5000",
      });
    }
    if (seen.has(host)) fail(`${at}.host`, `"${host}" has an entry already`);
    seen.add(host);
    if (endpoint !== undefined) checkUrl(`${at}.endpoint`, endpoint);
    for (const [number, mirror] of mirrors.entries()) checkUrl(`${at}.mirrors[${number}]`, mirror);
    if (entry.password !== undefined && entry.username === undefined)
      fail(`${at}.username`, "there is a password without a user name");
    if (entry.username !== undefined && entry.password === undefined)
      fail(`${at}.password`, "there is a user name without a password");
    if (ca !== undefined) checkCertificates(`${at}.ca`, ca);
    if (!insecure) return entry;
    if (endpoint?.startsWith("https:") === true || ca !== undefined) {
      fail(`${at}.insecure`, "a registry without TLS has no https endpoint and no certificates", {
        remedy: "Remove insecure; a certificate of your own goes into ca",
      });
    }
    return { ...entry, endpoint: endpoint ?? `http://${host}` };
  });
}

/**
 * How cells get images, from the section `images` and the original's keys of `cells.cellConfig`.
 *
 * @throws {ProviderError} `CONFIG_INVALID`
 */
export function imageSettings(
  images: decode.Decoded<typeof decodeImages>,
  cellConfig: Readonly<Record<string, string>>,
): DesiredImageSettings | undefined {
  const cache = images.cache ?? cacheOfOriginal(cellConfig);
  if (images.cache && cellConfig["imageCacheEndpoint"] !== undefined)
    fail("images.cache", "cells.cellConfig.imageCacheEndpoint sets the same", {
      remedy: "Keep images.cache",
    });
  const { proxy } = images;
  if (!cache && !proxy) return undefined;
  return { ...(cache && { cache: cacheSettings(cache) }), ...(proxy && proxySettings(proxy)) };
}

/** The original's keys that {@link imageSettings} reads. */
export const cellConfigKeys: readonly string[] = [
  "imageCacheEndpoint",
  "imageCacheMountDir",
  "imageCacheMountOpts",
];

type CacheSection = NonNullable<decode.Decoded<typeof decodeImages>["cache"]>;

function cacheOfOriginal(config: Readonly<Record<string, string>>): CacheSection | undefined {
  const nfs = config["imageCacheEndpoint"];
  if (nfs === undefined || nfs === "") return undefined;
  const words = (config["imageCacheMountOpts"] ?? "").split(/[\s,]+/);
  const options = words.filter((word) => !["", "-o", "ro"].includes(word));
  return { nfs, path: config["imageCacheMountDir"] ?? "/nfs", options };
}

function cacheSettings(cache: CacheSection): NonNullable<DesiredImageSettings["cache"]> {
  const { path = defaultCachePath, nfs, options = [] } = cache;
  if (!path.startsWith("/") || path === "/" || path.split("/").includes(".."))
    fail("images.cache.path", `"${path}" is not the absolute path of a folder`);
  if (nfs === undefined) {
    if (cache.path === undefined) fail("images.cache", "neither nfs nor path is given");
    if (options.length > 0)
      fail("images.cache.options", "they need images.cache.nfs, which is missing");
    return { path };
  }
  const [, host = ""] = /^(\[[0-9a-f:]+\]|[\w.-]+):\/[^\s,]*$/i.exec(nfs) ?? [];
  if (host === "" || (host.startsWith("[") && isIP(host.slice(1, -1)) !== 6))
    fail("images.cache.nfs", `"${nfs}" is not <server>:/<path>`, {
      remedy: "Write for example 10.20.0.2:/data",
    });
  for (const option of options) {
    const isAllowed = /^[a-z]\w*(=[\w.:-]+)?$/.test(option) && !forbidden.includes(option);
    if (isAllowed) continue;
    fail("images.cache.options", `"${option}" is not a valid option for this mount`, {
      remedy: "Cells mount read-only, without programs and devices; write for example vers=4.1",
    });
  }
  return options.length > 0 ? { path, nfs, options } : { path, nfs };
}

const forbidden: readonly string[] = ["rw", "suid", "dev", "exec", "hard"];

function proxySettings(
  proxy: NonNullable<decode.Decoded<typeof decodeImages>["proxy"]>,
): Pick<DesiredImageSettings, "proxy"> {
  const { http, https, no = [] } = proxy;
  for (const [key, url] of Object.entries({ http, https })) {
    if (url === undefined) continue;
    if (/^https?:$/.test(URL.parse(url)?.protocol ?? "")) continue;
    fail(`images.proxy.${key}`, `"${hidden(url)}" is not a valid URL`, {
      remedy: "Write for example http://proxy.example.com:3128",
    });
  }
  return {
    proxy: defined({
      HTTP_PROXY: http,
      HTTPS_PROXY: https,
      NO_PROXY: no.length > 0 ? no.join(",") : undefined,
    }),
  };
}

function checkUrl(at: string, text: string): void {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol))
    fail(at, `"${hidden(text)}" is not a valid URL`, {
      remedy: "Write for example https://mirror.example.com:5000",
    });
  if (url.username === "" && url.password === "") return;
  fail(at, `"${hidden(text)}" has credentials in it`, {
    remedy: "Write them as username and password of the entry with this host",
  });
}

function checkCertificates(at: string, text: string): void {
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const remedy = "Write the certificates themselves, in PEM";
  if (found.length === 0) fail(at, "there is no PEM certificate in it", { remedy });
  for (const [index, pem] of found.entries()) {
    try {
      void new X509Certificate(pem);
    } catch (cause) {
      fail(at, `certificate ${index + 1} of ${found.length} cannot be read`, { cause, remedy });
    }
  }
}

/** The URL without its user and password. */
function hidden(url: string): string {
  return url.replace(/\/\/[^/@]*@/, "//…@");
}

function fail(
  at: string,
  reason: string,
  options: { readonly remedy?: string; readonly cause?: unknown } = {},
): never {
  throw new ProviderError(
    "CONFIG_INVALID",
    `Cannot use "${at}" of the configuration: ${reason}`,
    options,
  );
}
