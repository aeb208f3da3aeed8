import fs from "node:fs/promises";
import { isIP } from "node:net";
import { AgentError, type DesiredImageSettings } from "@kip/agent-api";
import { runCommand, type Clock, type Logger } from "@kip/base";
import { isMounted } from "../volumes/mount-points.ts";

type CacheSettings = NonNullable<DesiredImageSettings["cache"]>;

/** Returns the mounted folder of the shared image cache. Undefined if it is not available now. Never throws. */
export type CacheFolder = (settings: CacheSettings) => Promise<string | undefined>;

/**
 * Read-only, and with a time limit: if a server does not respond, there is an error after some seconds, and images come from
 * their registries. Programs and devices there are not usable on this machine.
 */
const mountOptions = [
  "ro",
  "soft",
  "timeo=20",
  "retrans=1",
  "noatime",
  "nosuid",
  "nodev",
  "noexec",
];
/** Time limit for a mount, milliseconds. After it, images are pulled without the cache. */
const mountLimitMs = 5000;
/** Delay before a failed mount is tried again, milliseconds. */
const retryAfterMs = 60_000;

/** Mounts a share. */
export type MountShare = (
  share: { readonly address: string; readonly path: string },
  directory: string,
  options: readonly string[],
) => Promise<void>;

/** Manages the mount of the shared cache for one cell. */
export function cacheFolder(options: {
  readonly logger: Logger;
  readonly clock: Clock;
  /** @default by mount(8) */
  readonly mountShare?: MountShare;
}): CacheFolder {
  const { logger, clock, mountShare = mountNfs } = options;
  let underway: Promise<string | undefined> | undefined;
  let failedAtMs = Number.NEGATIVE_INFINITY;
  return async (settings) => {
    if (settings.nfs === undefined) return settings.path;
    if (clock.monotonic() - failedAtMs < retryAfterMs) return undefined;
    underway ??= ensureMounted(settings, mountShare)
      .then(() => settings.path)
      .catch((error: unknown) => {
        failedAtMs = clock.monotonic();
        logger.warn("Could not mount the image cache", { share: settings.nfs, err: error });
        return undefined;
      })
      .finally(() => (underway = undefined));
    return await underway;
  };
}

async function ensureMounted(settings: CacheSettings, mountShare: MountShare): Promise<void> {
  const { path: directory, nfs = "", options = [] } = settings;
  if (await isMounted(directory)) return;
  await fs.mkdir(directory, { recursive: true });
  const { host, path } = splitShare(nfs);
  const address = isIP(host) === 0 ? await addressOf(host) : host;
  await mountShare({ address, path }, directory, [...mountOptions, ...options]);
}

/** Loaded on demand, because most cells never use it. */
async function addressOf(host: string): Promise<string> {
  const { lookup } = await import("node:dns/promises");
  return (await lookup(host)).address;
}

/** Splits `10.0.0.1:/data`, `[fd00::1]:/data` or `files.example.com:/data`. */
function splitShare(nfs: string): { readonly host: string; readonly path: string } {
  const [, host, path] = /^\[?([^\][/]+?)\]?:(\/.*)$/.exec(nfs) ?? [];
  if (host !== undefined && path !== undefined) return { host, path };
  throw new AgentError("AGENT_IMAGE_CACHE", `Cannot mount "${nfs}": <server>:<path> is expected`);
}

/** NFS 4 needs no helper program: the kernel takes the server's address as an option. */
async function mountNfs(
  { address, path }: Parameters<MountShare>[0],
  directory: string,
  options: readonly string[],
): Promise<void> {
  const server = address.includes(":") ? `[${address}]` : address;
  const all = [...options, `addr=${address}`].join(",");
  const args = ["-i", "-t", "nfs4", "-o", all, `${server}:${path}`, directory];
  await runCommand("mount", args, { timeoutMs: mountLimitMs });
}
