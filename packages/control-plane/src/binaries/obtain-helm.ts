import { join, resolve } from "node:path";
import { systemClock } from "@kip/base";
import type { CacheEntry } from "./binary-cache.ts";
import { buildFromModules } from "./module-build.ts";
import { obtainCached, type ObtainSettings } from "./obtain-cached.ts";

/** Version of Helm. `tools/helm/go.mod` pins the same version. */
const helmVersion = "v4.3.1";

/** Options of {@link obtainHelm}. */
export interface ObtainHelmOptions extends ObtainSettings {
  /** Cache directory. The program is in `helm/<version>/` below it. */
  readonly cacheDir: string;
}

const modulesDir = join(import.meta.dirname, "../../../../tools/helm");
const buildInfo = "helm.sh/helm/v4/internal/version";

/**
 * Path of Helm, for tests of the chart, from the cache or built from pinned Go modules. Like `obtainBinaries`, it may be called
 * by several processes at once, and interrupted.
 *
 * @throws {ControlPlaneError} `GO_MISSING`, `GO_FAILED`, `DISK_TOO_SMALL`
 */
export async function obtainHelm(options: ObtainHelmOptions): Promise<string> {
  const entry: CacheEntry<"helm"> = {
    title: `Helm ${helmVersion}`,
    directory: join(resolve(options.cacheDir), "helm", helmVersion),
    versions: { helm: helmVersion },
    programs: ["helm"],
  };
  const sources = {
    title: entry.title,
    mains: { helm: { path: "helm.sh/helm/v4/cmd/helm", file: "helm" } },
    variables: { [`${buildInfo}.version`]: helmVersion },
    neededBytes: 1.5e9,
    duration: "2 minutes on 2 cores",
  };
  const { go = "go", clock = systemClock, onProgress = () => {}, signal } = options;
  const make = async (work: string) => {
    const directory = join(work, "build");
    return await buildFromModules({
      sources,
      modulesDir,
      go,
      directory,
      clock,
      onProgress,
      signal,
    });
  };
  await obtainCached({ name: "Helm", entry, make }, options);
  return join(entry.directory, "helm");
}
