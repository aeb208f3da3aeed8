// Debian packages of exact versions for any architecture. apt downloads and verifies them, without root.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { existsSync } from "node:fs";
import path from "node:path";
import { errorText, runCommand } from "@kip/base";
import { defaultSources, hostAptSources } from "@kip/cell-image";
import type { Architecture, DebianLock, LockedPackage } from "./recipe.ts";

/**
 * Downloads the packages of a lock that are not in the cache.
 *
 * @returns path of each package's file, by package name
 */
export async function fetchPackages(
  lock: DebianLock,
  architecture: Architecture,
  cacheDir: string,
): Promise<ReadonlyMap<string, string>> {
  const packages = lock[architecture];
  const files = new Map(
    packages.map((each) => [each.name, path.join(cacheDir, "debian", `${each.sha256}.deb`)]),
  );
  const missing = packages.filter(({ name }) => !existsSync(files.get(name) ?? ""));
  if (missing.length === 0) return files;
  mkdirSync(path.join(cacheDir, "debian"), { recursive: true });
  const folder = path.join(cacheDir, `apt-${architecture}-${process.pid}`);
  try {
    await download(missing, lock, { folder, architecture });
    for (const file of readdirSync(folder).filter((name) => name.endsWith(".deb"))) {
      const from = path.join(folder, file);
      const sha256 = createHash("sha256").update(readFileSync(from)).digest("hex");
      renameSync(from, path.join(cacheDir, "debian", `${sha256}.deb`));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const wrong = missing.filter(({ name }) => !existsSync(files.get(name) ?? ""));
  if (wrong.length === 0) return files;
  const names = wrong.map(({ name, version }) => `${name}=${version}`).join(", ");
  throw new Error(
    `What Debian offers is not what deploy/images/debian-packages.json has: ${names}`,
  );
}

/** The versions that Debian currently offers. */
export async function newestPackages(
  names: readonly string[],
  suite: string,
  { cacheDir, architecture }: { readonly cacheDir: string; readonly architecture: Architecture },
): Promise<readonly LockedPackage[]> {
  const folder = path.join(cacheDir, `apt-${architecture}-${process.pid}`);
  try {
    const apt = await openApt({ folder, architecture, sources: await sourcesOf(suite) });
    const { stdout } = await apt("apt-cache", "show", "--no-all-versions", ...names);
    const found = stdout.split(/\n\n+/).filter((stanza) => stanza.trim() !== "");
    return found
      .map((stanza) => ({
        name: field(stanza, "Package"),
        version: field(stanza, "Version"),
        sha256: field(stanza, "SHA256"),
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Downloads from this computer's package sources, or from Debian's snapshots if a version is no longer there. */
async function download(
  packages: readonly LockedPackage[],
  lock: DebianLock,
  where: { readonly folder: string; readonly architecture: Architecture },
): Promise<void> {
  const wanted = packages.map(({ name, version }) => `${name}=${version}`);
  const fetchFrom = async (sources: readonly string[]): Promise<void> => {
    const apt = await openApt({ ...where, sources });
    await apt("apt-get", "download", ...wanted);
  };
  try {
    await fetchFrom(await sourcesOf(lock.suite));
  } catch (error) {
    console.error(`Debian's mirror does not have them, trying its snapshots: ${errorText(error)}`);
    await fetchFrom(snapshotSources(lock));
  }
}

function snapshotSources({ suite, snapshot }: DebianLock): readonly string[] {
  const from = (archive: string, name: string): string =>
    `deb [check-valid-until=no] http://snapshot.debian.org/archive/${archive}/${snapshot}/ ${name} main`;
  return [from("debian", suite), from("debian-security", `${suite}-security`)];
}

async function sourcesOf(suite: string): Promise<readonly string[]> {
  const own = await hostAptSources("/etc/apt", suite);
  return own.length > 0 ? own : defaultSources;
}

/** Prepares a separate apt, for another architecture than the computer's. It does not use the system's apt folders. */
async function openApt(options: {
  readonly folder: string;
  readonly architecture: Architecture;
  readonly sources: readonly string[];
}) {
  const { folder, architecture, sources } = options;
  for (const name of ["state/lists/partial", "cache/archives/partial"])
    mkdirSync(path.join(folder, name), { recursive: true });
  writeFileSync(path.join(folder, "status"), "");
  writeFileSync(path.join(folder, "sources.list"), `${sources.join("\n")}\n`);
  const settings = {
    "Dir::State": `${folder}/state`,
    "Dir::State::status": `${folder}/status`,
    "Dir::Cache": `${folder}/cache`,
    "Dir::Etc::sourcelist": `${folder}/sources.list`,
    "Dir::Etc::sourceparts": "/dev/null",
    "APT::Architecture": architecture,
    "APT::Architectures": architecture,
    // apt's sandbox user may not write to this folder.
    "APT::Sandbox::User": process.getuid?.() === 0 ? "root" : "",
    "Acquire::Languages": "none",
  };
  const flags = Object.entries(settings).map(([name, value]) => `--option=${name}=${value}`);
  const apt = async (program: string, ...args: readonly string[]) =>
    await runCommand(program, [...flags, "--quiet", ...args], { cwd: folder, env: process.env });
  await apt("apt-get", "update");
  return apt;
}

function field(stanza: string, name: string): string {
  const line = stanza.split("\n").find((text) => text.startsWith(`${name}: `));
  if (line === undefined) throw new Error(`apt-cache show gave no ${name}`);
  return line.slice(name.length + 2);
}
