import { statSync } from "node:fs";
import {
  createLogger,
  logLevels,
  OptionError,
  pause,
  SerialQueue,
  systemClock,
  type Logger,
  type OptionValues,
} from "@kip/base";
import { startImageCache, type ImageCacheSettings } from "@kip/kip/image-cache";
import { hostPlatform, parsePlatform, type Platform } from "@kip/oci-image";
import {
  openClient,
  readOptionFile,
  startHealth,
  startMetrics,
} from "@kip/virtual-kubelet/command";
import { metricsText } from "@kip/virtual-kubelet/telemetry";
import { parseCommand } from "../cli/parse-command.ts";
import { stopRequest } from "../cli/stop-request.ts";
import { configError, readConfigFile, readConfigText } from "../config/read-provider-config.ts";
import { watchFile } from "../config/watch-file.ts";
import { collectionOf, imageCacheOptions, intervalOf, listedNames } from "./image-cache-options.ts";

const usage = `Usage: kip image-cache --cache=FOLDER [options]

Fills a folder from which cells pull images (images.cache in provider.yaml) with the images of the
cluster's pods and of a list. Resolves their tags again at intervals, and removes what was not used
for a long time. Runs until SIGINT or SIGTERM.

Example: kip image-cache --cache=/var/cache/images --node=kip --list=images.txt --unused-for=72h`;

/** Runs `kip image-cache`. */
export async function imageCache(args: readonly string[]): Promise<void> {
  const options = parseCommand(usage, imageCacheOptions, args);
  if (!options) return;
  await using stack = new AsyncDisposableStack();
  const level = options.choice("log-level", logLevels);
  const logger = createLogger({ level, write: (line) => void process.stderr.write(`${line}\n`) });
  const { signal } = stopRequest();
  const common = {
    cache: folderOf(options),
    nodes: new Set(options.list("node")),
    platforms: platformsOf(options),
    allowsPrivate: options.isSet("private"),
    usesPullSecrets: options.isSet("pull-secrets"),
    parallel: options.integer("parallel", { min: 1, max: 32 }),
    fillTimeoutMs: intervalOf(options, "fill-timeout"),
    leastBytesPerSecond: options.integer("min-rate", { min: 1, max: maxRate }) * 1024,
    refreshMs: intervalOf(options, "refresh"),
    ...collectionOf(options),
  };
  const settings = await readSettings(options);
  const { client } = await openClient(options, {
    env: process.env,
    userAgent: "kip/0.1.0",
    logger,
  });
  stack.defer(() => client.close());
  const running = startImageCache({
    ...common,
    client,
    settings,
    clock: systemClock,
    logger,
    signal,
  });
  stack.defer(async () => await running.stopped);
  const health = () => {
    const { waitsFor } = running;
    return { isReady: waitsFor === undefined, doing: waitsFor ?? "looking after the cache" };
  };
  await startHealth(options, health, stack);
  await startMetrics(options, { text: () => metricsText(running.families()) }, stack);
  followSettings(options, (changed) => running.change(changed), { logger, signal });
  logger.info("Started to look after the image cache", { cache: common.cache });
  await pause(Number.POSITIVE_INFINITY, systemClock, signal);
  logger.info("Began to stop", { reason: String(signal.reason) });
}

/** The highest value of `--min-rate`, KiB/s. */
const maxRate = 1024 * 1024;

/** The cache folder, which has to exist. Creating it when its volume is missing would fill a cache that cells do not see. */
function folderOf(options: OptionValues): string {
  const folder = options.required("cache");
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return folder;
  throw new OptionError("OPTION_INVALID", `Cannot use --cache ${folder}: it is not a folder`, {
    remedy: "Mount the volume that cells share, or make the folder",
  });
}

function platformsOf(options: OptionValues): readonly Platform[] {
  const names = options.list("platform");
  return names.length === 0 ? [hostPlatform()] : names.map((name) => platformOf(name));
}

function platformOf(text: string): Platform {
  const platform = parsePlatform(text);
  if (platform) return platform;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --platform ${text}: os/architecture is expected`,
  );
}

async function readSettings(options: OptionValues): Promise<ImageCacheSettings> {
  const file = options.text("provider-config");
  const { config, problems } =
    file === undefined
      ? noConfig
      : readConfigText(await readConfigFile(file), { needsCloud: false });
  if (file !== undefined && !config) throw configError(file, problems);
  const list = options.text("list") === undefined ? "" : await readOptionFile(options, "list");
  return {
    registries: config?.registries ?? [],
    dockerConfig: config?.dockerConfig,
    path: process.env["PATH"],
    proxy: config?.images?.proxy,
    listed: listedNames(list),
  };
}

const noConfig = { config: undefined, problems: [] };

/** Reads the files again when they change. While one of them is not valid, its previous content stays in force. */
function followSettings(
  options: OptionValues,
  change: (settings: ImageCacheSettings) => void,
  { logger, signal }: { readonly logger: Logger; readonly signal: AbortSignal },
): void {
  const queue = new SerialQueue();
  let isAsked = false;
  const look = async (): Promise<void> => {
    if (!(await pause(settledMs, systemClock, signal))) return;
    isAsked = false;
    change(await readSettings(options));
    logger.info("Applied the changed settings");
  };
  const ask = (): void => {
    if (isAsked || signal.aborted) return;
    isAsked = true;
    queue
      .run(look)
      .catch((err: unknown) => logger.error("Could not apply changed settings", { err }));
  };
  for (const flag of ["list", "provider-config"]) {
    const file = options.text(flag);
    if (file === undefined) continue;
    const watched = watchFile(file, ask);
    signal.addEventListener("abort", () => watched[Symbol.dispose](), { once: true });
  }
}

/** Delay after the last change event, milliseconds. A writer may need several system calls for a file. */
const settledMs = 300;
