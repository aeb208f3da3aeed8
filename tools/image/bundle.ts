// The program of the image: JavaScript in a few files. Node would take the types out of all sources at each start, which is most of the
// processor time that kip takes to start.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build, type Plugin } from "esbuild";
import type { NpmClosure } from "./npm-closure.ts";
import { root } from "./recipe.ts";

/** What {@link bundleApplication} needs. */
export interface BundleOptions {
  /** Folder of the workspace. */
  readonly application: string;
  readonly closure: NpmClosure;
  /** Workspaces that are not in the image: to import them fails as if they were not installed. */
  readonly leftOut: readonly string[];
}

/** Folder of the bundle in its workspace. */
export const bundleFolder = "dist";

/**
 * Writes `main.js` of an application and a file for each part of it that is imported later, with names and lines as they are; and
 * source maps, by which Node names file and line of the source in stack traces. npm's packages are not part of it. The same
 * sources give the same files.
 *
 * @param folder the repository in the image
 * @throws {Error} if a package is where the bundle would not find it
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
    // Paths in the source maps are relative to where the files would be here, which is where they are in the image.
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

/** Lets a module go on finding files by their place relative to it. */
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
