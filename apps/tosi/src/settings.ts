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

/** Opens the store that the flags name. Only our user may have access to its folder. */
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
 * Creates a folder, or checks that only our user has access to it. The default store is in a folder that every user can write
 * to, so another user could have created it to plant images.
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

/** Whether any user may rename one of the parent folders and replace it. */
function isReplaceable(place: string): boolean {
  for (let above = path.dirname(realpathSync(place)); ; above = path.dirname(above)) {
    // In a sticky folder such as /tmp, users can only rename their own files.
    const { mode } = lstatSync(above);
    if ((mode & 0o002) !== 0 && (mode & 0o1000) === 0) return true;
    if (above === path.dirname(above)) return false;
  }
}

/** The image reference for a name and `-url`. */
export function readReference(name: string, options: OptionValues): Reference {
  const url = options.text("url");
  if (url === undefined) return parseReference(name);
  // As in the original: if a URL is given, the name is the repository's within that registry.
  const place = parseReference(`registry.invalid/${name}`);
  return { ...place, registry: urlOf("url", url).host };
}

/** Pull options from the flags. */
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

/** Reads the file that a flag names. */
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
