import { createHash } from "node:crypto";
import { rm } from "node:fs/promises";
import path from "node:path";
import { hostArchitecture } from "@kip/base";
import { cachedBuild } from "./build-cache.ts";
import { asBuildFailure } from "./build-failure.ts";
import { requireHostTools } from "./host-tools.ts";
import { runMmdebstrap } from "./mmdebstrap.ts";
import { recipe } from "./recipe.ts";

/** Options of {@link buildPackageTree}. */
export interface BuildPackageTreeOptions {
  /** Folder for the tree. Created if it is missing. */
  readonly cacheDir: string;
  /** Names of Debian packages, with the architecture if it differs from this computer's: `name:arm64`. */
  readonly packages: readonly string[];
  /** Called with one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Returns a folder with the files of Debian packages and all their dependencies. None of their scripts has run.
 *
 * @throws {CellImageError} `CELL_IMAGE_NOT_ROOT`, `CELL_IMAGE_TOOLS_MISSING`, `CELL_IMAGE_BUILD_FAILED`
 */
export async function buildPackageTree(options: BuildPackageTreeOptions): Promise<string> {
  const { cacheDir, signal } = options;
  const packages = options.packages.toSorted();
  await requireHostTools(["mmdebstrap", "setpriv", "unshare", "flock"]);
  const inputs = createHash("sha256").update(JSON.stringify([recipe.suite, packages]));
  return await asBuildFailure("fetch Debian packages", signal, async () => {
    const folder = await cachedBuild({
      cacheDir,
      kind: "packages",
      key: inputs.digest("hex").slice(0, 16),
      signal,
      build: async (work) => {
        options.onProgress?.(`Fetching the Debian packages ${packages.join(", ")}`);
        const root = path.join(work, "root");
        const include = `--include=${packages.join(",")}`;
        const named = packages.flatMap((each) => each.split(":").slice(1));
        const all = `--architectures=${[...new Set([hostArchitecture, ...named])].join(",")}`;
        await runMmdebstrap({ root, arguments: ["--variant=extract", all, include], signal });
        for (const device of ["dev", "var/cache", "var/lib/apt"])
          await rm(path.join(root, device), { recursive: true, force: true });
      },
    });
    return path.join(folder, "root");
  });
}
