import { join, resolve } from "node:path";
import type { CacheEntry } from "./binary-cache.ts";
import type { ProgramSources } from "./module-build.ts";
import { versionVariables } from "./obtain-binaries.ts";
import { buildProject, obtainCached, type ObtainSettings } from "./obtain-cached.ts";
import { pinned, type PinnedRelease } from "./pinned-version.ts";

/** Options of {@link obtainSpecPrograms}. */
export interface ObtainSpecProgramsOptions extends ObtainSettings {
  /** Cache directory. The programs are in `conformance/<version>/` below it. */
  readonly cacheDir: string;
  /** The release. @default {@link pinned} */
  readonly release?: PinnedRelease | undefined;
}

/** Kubernetes' own specs, and programs in the images that the specs use. */
export type SpecProgramName = "e2e.test" | "agnhost" | "nonewprivs" | "sample-apiserver";

const mains: ProgramSources<SpecProgramName>["mains"] = {
  agnhost: { path: "k8s.io/kubernetes/test/images/agnhost", file: "agnhost" },
  nonewprivs: { path: "k8s.io/kubernetes/test/images/nonewprivs", file: "nonewprivs" },
  "sample-apiserver": { path: "k8s.io/sample-apiserver", file: "sample-apiserver" },
  "e2e.test": { path: "k8s.io/kubernetes/test/e2e", file: "e2e.test", isTest: true },
};

/** Object files of the build and the programs, rounded up. */
const neededBytes = 4e9;

/**
 * The end-to-end specs of a Kubernetes release, and the programs in their images, from the cache or built from pinned Go
 * modules. Like `obtainBinaries`, it may be called by several processes at once, and interrupted.
 *
 * @returns the folder that contains all of them
 * @throws {ControlPlaneError} `KUBERNETES_UNOBTAINABLE` if there is no Go toolchain
 * @throws {ControlPlaneError} `KUBERNETES_BUILD_FAILED`, `DISK_TOO_SMALL`
 */
export async function obtainSpecPrograms(options: ObtainSpecProgramsOptions): Promise<string> {
  const { kubernetes: version, specModules } = options.release ?? pinned;
  const sources: ProgramSources<SpecProgramName> = {
    title: `the specs of Kubernetes ${version}`,
    mains,
    variables: versionVariables(version),
    neededBytes,
    duration: "6 minutes on 2 cores",
  };
  const entry: CacheEntry<SpecProgramName> = {
    title: `Specs of Kubernetes ${version}`,
    directory: join(resolve(options.cacheDir), "conformance", version),
    versions: { specs: version },
    programs: ["e2e.test", "agnhost", "nonewprivs", "sample-apiserver"],
  };
  const make = async (work: string) =>
    await buildProject(
      {
        sources,
        modulesDir: join(import.meta.dirname, "../../../../tools", specModules),
        work,
        failed: "KUBERNETES_BUILD_FAILED",
        unobtainable: { code: "KUBERNETES_UNOBTAINABLE", reason: "there is no Go toolchain here" },
        otherwise: "copy its cache from a computer that has it",
      },
      options,
    );
  await obtainCached({ name: "the specs of Kubernetes", entry, make }, options);
  return entry.directory;
}
