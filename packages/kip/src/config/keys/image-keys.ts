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
      meaning: "a registry as it stands in image names, with its port",
    }),
    endpoint: value(url, {
      meaning: "base URL to use instead",
      fallback: "`https://<host>`",
    }),
    insecure: value(flag, { meaning: "plain HTTP: `http://<host>`", fallback: "`false`" }),
    mirrors: list(value(url), {
      meaning:
        "base URLs that are asked first, in order; their credentials and certificates are in entries of their own",
    }),
    username: value(secretText, {
      meaning: "user, behind those of the pod's `imagePullSecrets`",
    }),
    password: value(secretText, { meaning: "the user's password" }),
    ca: value(certificates, {
      meaning: "PEM certificates trusted for this registry besides the system's",
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
          "`<server>:<path>`, a [cache of blobs](images.md#a-cache-that-machines-share) that cells mount read-only by NFS 4",
      }),
      path: value(cachePath, {
        meaning: "where on the cell; without `nfs`: a folder that is there",
        fallback: "`/var/cache/images`",
      }),
      options: list(value(mountOption), {
        meaning: "further mount options, for example `vers=4.1`",
      }),
    }),
    dockerConfig: value(absolutePath, {
      meaning:
        "file of `docker login` on kip's machine, with credential helpers, for registries without `username`",
      reload: "restart",
    }),
    proxy: section({
      http: value(proxyUrl, { meaning: "proxy of cells for pulls without TLS" }),
      https: value(proxyUrl, { meaning: "proxy of cells for pulls with TLS" }),
      no: list(value(text), { meaning: "hosts without a proxy" }),
    }),
  },
  { reload: "live" },
);
