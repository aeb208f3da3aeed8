import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  acquireFileLock,
  errorText,
  silentLogger,
  systemClock,
  type Clock,
  type Logger,
} from "@kip/base";
import { ControlPlaneError, type ControlPlaneErrorCode } from "../errors.ts";
import { isCached, writeCache, type CacheEntry } from "./binary-cache.ts";
import { buildFromModules, type ProgramSources } from "./module-build.ts";

/** Settings for obtaining any programs. */
export interface ObtainSettings {
  /** Called with a line, without line end, at the start of each step that takes time. */
  readonly onProgress?: ((line: string) => void) | undefined;
  readonly logger?: Logger | undefined;
  readonly clock?: Clock | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The go command. @default "go" */
  readonly go?: string | undefined;
}

/** Programs of one project and version. */
export interface Project<Name extends string> {
  /** For messages: "Kubernetes". */
  readonly name: string;
  readonly entry: CacheEntry<Name>;
  /**
   * Makes the programs in a separate folder. The folder is kept after a failure, and removed after success.
   *
   * @returns path of each program
   */
  readonly make: (work: string) => Promise<Readonly<Record<Name, string>>>;
}

/**
 * Fills a cache entry if it is missing. Several processes may call it at once: one works, and the others wait. It may be
 * interrupted at any point, and the next call resumes.
 */
export async function obtainCached<Name extends string>(
  project: Project<Name>,
  settings: ObtainSettings,
): Promise<void> {
  const { name, entry } = project;
  if (await isCached(entry)) return;
  await mkdir(dirname(entry.directory), { recursive: true });
  await using _lock = await acquireFileLock(`${entry.directory}.lock`, {
    onWait: () => settings.onProgress?.(`Waiting for another process that obtains ${name}`),
    signal: settings.signal,
  });
  // The previous holder of the lock may have filled the entry.
  if (!(await isCached(entry))) await makeAndCache(project, settings);
}

async function makeAndCache<Name extends string>(
  { name, entry, make }: Project<Name>,
  settings: ObtainSettings,
): Promise<void> {
  const { clock = systemClock, logger = silentLogger, onProgress } = settings;
  const begin = clock.monotonic();
  const work = `${entry.directory}.work`;
  await writeCache(entry, await make(work));
  await rm(work, { recursive: true, force: true });
  const durationMs = Math.round(clock.monotonic() - begin);
  onProgress?.(`${entry.title} is ready after ${duration(durationMs)}`);
  logger.info(`${name} obtained`, {
    component: "control-plane",
    durationMs,
    directory: entry.directory,
  });
}

/** The programs that {@link buildProject} builds, and its errors. */
export interface BuildProject<Name extends string> {
  readonly sources: ProgramSources<Name>;
  readonly modulesDir: string;
  readonly work: string;
  readonly unobtainable: { readonly code: ControlPlaneErrorCode; readonly reason: string };
  readonly failed: ControlPlaneErrorCode;
  /** The alternative to a build, after "Install Go 1.26 or newer, or". */
  readonly otherwise: string;
}

/** Builds programs from pinned Go modules. */
export async function buildProject<Name extends string>(
  project: BuildProject<Name>,
  settings: ObtainSettings,
): Promise<Readonly<Record<Name, string>>> {
  const { sources, modulesDir, work, unobtainable, failed, otherwise } = project;
  try {
    return await buildFromModules({
      sources,
      modulesDir,
      go: settings.go ?? "go",
      directory: join(work, "build"),
      clock: settings.clock ?? systemClock,
      onProgress: settings.onProgress ?? (() => {}),
      signal: settings.signal,
    });
  } catch (error) {
    if (ControlPlaneError.is(error, "GO_MISSING")) {
      const message = `Cannot obtain ${sources.title}: ${unobtainable.reason}`;
      const remedy = `Install Go 1.26 or newer, or ${otherwise}`;
      throw new ControlPlaneError(unobtainable.code, message, { cause: error, remedy });
    }
    if (!ControlPlaneError.is(error, "GO_FAILED")) throw error;
    throw new ControlPlaneError(failed, `Cannot build ${sources.title}: ${errorText(error)}`, {
      cause: error,
      remedy: "Try again: it goes on where it stopped. Go needs its module proxy",
    });
  }
}

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
