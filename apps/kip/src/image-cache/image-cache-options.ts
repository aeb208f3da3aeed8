import { OptionError, type Option, type OptionValues } from "@kip/base";
import { duration } from "@kip/virtual-kubelet/command";

/** Options of `kip image-cache`. */
export const imageCacheOptions: readonly Option[] = [
  { flag: "cache", type: "string", help: "folder of the cache, such as an NFS or EFS volume" },
  { flag: "list", type: "string", help: "file with names of further images, one per line" },
  {
    flag: "provider-config",
    type: "string",
    help: "provider.yaml, for its registries, proxy and images.dockerConfig",
  },
  {
    flag: "kubeconfig",
    type: "string",
    help: "kubeconfig file. Default: the first existing file of those in KUBECONFIG (a:b), else ~/.kube/config, else the pod's service account",
  },
  {
    flag: "node",
    type: "list",
    help: "take the images of this node's pods; default those of all nodes",
  },
  {
    flag: "platform",
    type: "list",
    help: "os/architecture[/variant] of cells; default this machine's",
  },
  {
    flag: "refresh",
    type: "string",
    fallback: "1h",
    help: "how often a tag is resolved again",
  },
  {
    flag: "unused-for",
    type: "string",
    fallback: "168h",
    help: "remove images that were not used for this time; or off",
  },
  {
    flag: "collect",
    type: "string",
    fallback: "1h",
    help: "how often to look for unused images",
  },
  {
    flag: "fill-timeout",
    type: "string",
    fallback: "30m",
    help: "time limit for one image; its complete blobs stay, and the rest is fetched after --refresh",
  },
  {
    flag: "min-rate",
    type: "string",
    fallback: "32",
    help: "least rate in KiB/s; a pull that is slower for a minute is given up",
  },
  { flag: "parallel", type: "string", fallback: "2", help: "images that are fetched at once" },
  {
    flag: "private",
    type: "boolean",
    fallback: "false",
    help: "also take images that need a log-in; root on every cell with the cache can read them",
  },
  {
    flag: "pull-secrets",
    type: "boolean",
    fallback: "false",
    help: "log in with the pods' imagePullSecrets; needs the right to get secrets",
  },
  {
    flag: "metrics-addr",
    type: "string",
    fallback: "off",
    help: "address that serves GET /metrics; or off",
  },
  {
    flag: "health-addr",
    type: "string",
    fallback: "off",
    help: "address that serves GET /livez and GET /readyz; or off",
  },
  {
    flag: "log-level",
    type: "string",
    fallback: "info",
    help: "lowest level that is logged: trace, debug, info, warn or error",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** The longest time that a timer of Node can wait, milliseconds. */
const longestMs = 2 ** 31 - 1;

/** The value of an option in milliseconds, from one second to the longest. @throws {OptionError} `OPTION_INVALID` */
export function intervalOf(options: OptionValues, flag: string): number {
  const text = options.required(flag);
  const ms = duration(flag, text);
  if (ms >= 1000 && ms <= longestMs) return ms;
  throw new OptionError("OPTION_INVALID", `Cannot use --${flag} ${text}: 1s to 596h is expected`);
}

/** The value of `--unused-for` in milliseconds, infinite for `off`. @throws {OptionError} `OPTION_INVALID` */
export function unusedForOf(options: OptionValues): number {
  const text = options.required("unused-for");
  if (text === "off") return Number.POSITIVE_INFINITY;
  const ms = duration("unused-for", text);
  if (ms >= 1000) return ms;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --unused-for ${text}: 1s or more is expected`,
    {
      remedy: "Write it like --unused-for=168h, or --unused-for=off to keep everything",
    },
  );
}

/**
 * The values of `--collect` and `--unused-for` in milliseconds. Several caches may share a folder, and each marks the images
 * that it uses only when it collects. So `--collect` must be shorter.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function collectionOf(options: OptionValues): {
  readonly collectMs: number;
  readonly unusedForMs: number;
} {
  const collectMs = intervalOf(options, "collect");
  const unusedForMs = unusedForOf(options);
  if (collectMs < unusedForMs) return { collectMs, unusedForMs };
  const [collect, unusedFor] = [options.required("collect"), options.required("unused-for")];
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --collect ${collect} with --unused-for ${unusedFor}: it must be shorter, or caches that share the folder remove images in use`,
    { remedy: "Make --collect shorter than --unused-for: --collect=1h --unused-for=168h" },
  );
}

/** The image names in a list, one per line. Skips empty lines and lines that start with `#`. */
export function listedNames(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
}
