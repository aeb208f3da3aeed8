// Bundles the image's program into a few JavaScript files. Otherwise Node would strip the types of all sources at each start,
// which is most of the CPU time of kip's start.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build, type Plugin } from "esbuild";
import type { NpmClosure } from "./npm-closure.ts";
import { root } from "./recipe.ts";

/** Options of {@link bundleApplication}. */
export interface BundleOptions {
  /** Folder of the workspace. */
  readonly application: string;
  readonly closure: NpmClosure;
  /** Workspaces that are not in the image. Importing them fails as if they were not installed. */
  readonly leftOut: readonly string[];
}

/** Folder of the bundle below its workspace. */
export const bundleFolder = "dist";

/**
 * Writes an application's `main.js`, and a file for each part that it imports on demand. Keeps names and lines. Writes source
 * maps, with which stack traces name file and line of the source. Does not include npm packages. The same sources result in the
 * same files.
 *
 * @param folder the repository in the image
 * @throws {Error} if a package is not where the bundle would find it
 */
export async function bundleApplication(folder: string, options: BundleOptions): Promise<void> {
  const { application, closure, leftOut } = options;
  const hidden = closure.packages.find((place) => !place.startsWith("node_modules/"));
  if (hidden !== undefined)
    throw new Error(
      `The bundle of ${application} would not find ${hidden}: npm has to install it higher up`,
    );
  const outdir = path.join(root, application, bundleFolder);
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [`${application}/src/main.ts`],
    outdir,
    // Source maps contain relative paths. They are relative to where the files would be in this repository, which is also where
    // they are in the image.
    write: false,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node24",
    external: [...leftOut, ...closure.packages.map((place) => place.slice("node_modules/".length))],
    sourcemap: "linked",
    sourcesContent: false,
    plugins: [ownFolder(outdir)],
    logLevel: "silent",
  });
  for (const { path: file, contents } of outputFiles) {
    const target = path.join(folder, path.relative(root, file));
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, contents);
  }
}

/** Lets modules find files relative to their own folder. */
function ownFolder(outdir: string): Plugin {
  const name = "import.meta.dirname";
  return {
    name,
    setup: (bundler) => {
      bundler.onLoad({ filter: /\.ts$/ }, ({ path: file }) => {
        const text = readFileSync(file, "utf8");
        const place = path.relative(outdir, path.dirname(file));
        const folder = `(${name} + ${JSON.stringify(`/${place}`)})`;
        return { contents: text.replaceAll(name, folder), loader: "ts" };
      });
    },
  };
}
