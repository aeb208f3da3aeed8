import { list, section, value } from "./key.ts";
import {
  absolutePath,
  cachePath,
  certificates,
  flag,
  mountOption,
  nfsShare,
  proxyUrl,
  registryHost,
  secretText,
  text,
  url,
} from "./kinds.ts";

const registry = section(
  {
    host: value(registryHost, {
      meaning: "a registry as image names spell it, with its port",
    }),
    endpoint: value(url, {
      meaning: "base URL of the registry",
      fallback: "`https://<host>`",
    }),
    insecure: value(flag, {
      meaning: "whether to use plain HTTP: `http://<host>`",
      fallback: "`false`",
    }),
    mirrors: list(value(url), {
      meaning:
        "base URLs that are tried first, in order. A mirror's credentials and certificates are in its own entry",
    }),
    username: value(secretText, {
      meaning: "user name. The pod's `imagePullSecrets` are tried first",
    }),
    password: value(secretText, { meaning: "the user's password" }),
    ca: value(certificates, {
      meaning: "PEM certificates that are trusted for this registry, in addition to the system's",
    }),
  },
  { required: ["host"] },
);

/** The section `registries`. */
export const registryKeys = list(registry, { reload: "live" });

/** The section `images`. */
export const imageKeys = section(
  {
    cache: section({
      nfs: value(nfsShare, {
        meaning:
          "`<server>:<path>` of an [image cache](images.md#a-cache-that-machines-share), which cells mount read-only with NFS 4",
      }),
      path: value(cachePath, {
        meaning: "mount point on the cell. Without `nfs`, an existing folder",
        fallback: "`/var/cache/images`",
      }),
      options: list(value(mountOption), {
        meaning: "further mount options, for example `vers=4.1`",
      }),
    }),
    dockerConfig: value(absolutePath, {
      meaning:
        "file of `docker login` on kip's machine, for registries without `username`. Its credential helpers are used too",
      reload: "restart",
    }),
    proxy: section({
      http: value(proxyUrl, { meaning: "proxy for pulls without TLS" }),
      https: value(proxyUrl, { meaning: "proxy for pulls with TLS" }),
      no: list(value(text), { meaning: "hosts that are reached without a proxy" }),
    }),
  },
  { reload: "live" },
);
