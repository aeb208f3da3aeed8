import { lstatSync, mkdirSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import {
  createLogger,
  errorText,
  isSystemError,
  OptionError,
  Secret,
  systemClock,
  type OptionValues,
} from "@kip/base";
import {
  dockerConfigCredentials,
  openImageStore,
  parsePlatform,
  parseReference,
  type ManagedImageStore,
  type Platform,
  type PullOptions,
  type Reference,
  type RegistryConfig,
} from "@kip/oci-image";

type Environment = Readonly<Record<string, string | undefined>>;

/** The store that the flags name; its folder must be ours alone. */
export async function openStore(options: OptionValues): Promise<ManagedImageStore> {
  const root = path.resolve(options.text("overlaydir") ?? options.required("workdir"));
  ownFolder("workdir", root);
  return await openImageStore({
    root,
    logger: createLogger({ level: "error" }),
    clock: systemClock,
    makesDevices: options.isSet("devices"),
  });
}

/**
 * Makes a folder, or sees that it is ours alone. The default store is in a folder that everybody writes to: who
 * made it first could plant images.
 */
export function ownFolder(flag: string, root: string): void {
  try {
    mkdirSync(root, { mode: 0o700 });
  } catch (error) {
    if (isSystemError(error, "ENOENT")) mkdirSync(root, { recursive: true, mode: 0o700 });
    else if (!isSystemError(error, "EEXIST")) throw error;
  }
  const facts = lstatSync(root);
  const isOurs = facts.uid === process.geteuid?.() && (facts.mode & 0o022) === 0;
  if (isOurs && facts.isDirectory() && !isReplaceable(root)) return;
  throw new OptionError("OPTION_INVALID", `Cannot use -${flag} ${root}: others may write to it`, {
    remedy: "Name a folder that belongs to you alone",
  });
}

/** Whether everybody may rename a folder above, and put another in its place. */
function isReplaceable(place: string): boolean {
  for (let above = path.dirname(realpathSync(place)); ; above = path.dirname(above)) {
    // In a sticky folder, as /tmp is, everybody renames their own only.
    const { mode } = lstatSync(above);
    if ((mode & 0o002) !== 0 && (mode & 0o1000) === 0) return true;
    if (above === path.dirname(above)) return false;
  }
}

/** The image that a name and `-url` mean. */
export function readReference(name: string, options: OptionValues): Reference {
  const url = options.text("url");
  if (url === undefined) return parseReference(name);
  // As in the original: with a URL, the name is the registry's own and holds no registry.
  const place = parseReference(`registry.invalid/${name}`);
  return { ...place, registry: urlOf("url", url).host };
}

/** How to get an image, by the flags. */
export function pullOptions(
  reference: Reference,
  options: OptionValues,
  env: Environment,
): PullOptions {
  const layers = options.integer("parallel-downloads", { min: -1000, max: 1000 });
  const platform = options.text("platform");
  const cache = options.text("cache");
  return {
    registries: registriesOf(reference, options, env),
    parallelDownloads: layers === 0 ? 1000 : Math.max(1, layers),
    proxy: env,
    platform: platform === undefined ? undefined : readPlatform(platform),
    cache: cache === undefined ? undefined : path.resolve(cache),
  };
}

function registriesOf(
  reference: Reference,
  options: OptionValues,
  env: Environment,
): readonly RegistryConfig[] {
  const url = options.text("url");
  const username = options.text("username");
  const caFile = options.text("ca");
  const insecure = options.list("insecure");
  const configFile =
    options.text("docker-config") ??
    path.join(env["DOCKER_CONFIG"] ?? path.join(homedir(), ".docker"), "config.json");
  const credentials = dockerConfigCredentials(configFile, { path: env["PATH"] ?? "" });
  const ca = caFile === undefined ? undefined : readNamed("ca", caFile);
  const common = { credentials, ca };
  const plain = insecure.includes(reference.registry) ? `http://${reference.registry}` : undefined;
  const endpoint = url ?? plain;
  const mirrors = options.list("mirror");
  const own: RegistryConfig = {
    host: reference.registry,
    ...common,
    endpoint,
    username,
    password: new Secret(options.text("password") ?? ""),
    mirrors,
  };
  return [own, ...mirrors.map((mirror) => ({ host: urlOf("mirror", mirror).host, ...common }))];
}

/** The file that a flag names. */
export function readNamed(flag: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new OptionError("OPTION_INVALID", `Cannot use -${flag} ${file}: ${errorText(error)}`);
  }
}

function urlOf(flag: string, text: string): URL {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use -${flag} ${text}: it is not an http or https URL`,
  );
}

function readPlatform(text: string): Platform {
  const platform = parsePlatform(text);
  if (platform) return platform;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use -platform ${text}: os/architecture is expected`,
  );
}
