// Builds a container image from this repository.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fetchNodePackage } from "@kip/cell-image";
import { allocatorSettings, nodeFlags } from "@kip/kip/process-settings";
import { billOfMaterials } from "./bill-of-materials.ts";
import { bundleFolder } from "./bundle.ts";
import { fetchPackages } from "./debian-packages.ts";
import { emptyLayout, ImageLayout, type Layer } from "./image-layout.ts";
import { fillNode, fillPackages, fillProgram, fillSystem, installFolder } from "./layer-folders.ts";
import { npmClosure, type LockEntries } from "./npm-closure.ts";
import { readDebianLock, readRecipe, root } from "./recipe.ts";
import type { Architecture, ImageName, ImageRecipe } from "./recipe.ts";

/** Options of {@link buildImage}. */
export interface BuildImageOptions {
  readonly name: ImageName;
  /** Folder for the OCI image layout, and a bill of materials for each architecture. */
  readonly output: string;
  /** Folder for downloads. */
  readonly cacheDir: string;
  readonly architectures: readonly Architecture[];
  /** Time of all files and of the image, seconds since the Unix epoch. @default 0 */
  readonly epoch?: number | undefined;
  /** Called with a sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
}

/** Tag of the image in its layout. */
export const layoutTag = "latest";

/**
 * Builds the image. The same sources and locks result in the same digest on any computer with Debian 12's tar and gzip. Does
 * not need root, only apt, dpkg-deb, tar, gzip and npm.
 *
 * @returns digest of the index of all architectures
 */
export async function buildImage(options: BuildImageOptions): Promise<string> {
  const { name: image, output, epoch = 0, onProgress } = options;
  const recipe = readRecipe(image);
  const { version, packages: entries } = readLockFile();
  const closure = npmClosure(entries, recipe.application, recipe.leftOut);
  mkdirSync(output, { recursive: true });
  emptyLayout(output);
  const config = imageConfig(image, version, recipe);
  const layout = new ImageLayout(output, { epoch, config });
  const layer = async (name: string, fill: (folder: string) => unknown): Promise<Layer> => {
    const folder = path.join(output, "work");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    await fill(folder);
    const added = await layout.addLayer(folder, name);
    rmSync(folder, { recursive: true });
    return added;
  };
  onProgress?.(`Packing ${image}`);
  const shared = [
    await layer("npm packages", (folder) => fillPackages(folder, closure)),
    await layer(image, async (folder) => await fillProgram(folder, { ...recipe, closure })),
  ];
  const images = [];
  for (const architecture of options.architectures) {
    onProgress?.(`Fetching and packing Node and Debian's libraries for ${architecture}`);
    const lock = readDebianLock();
    const packages = await fetchPackages(lock, architecture, options.cacheDir);
    const { package: name, integrity } = recipe.node[architecture];
    const node = await fetchNodePackage(
      { name, version: recipe.node.version, integrity },
      { cacheDir: options.cacheDir },
    );
    const system = [
      await layer("debian", async (folder) => await fillSystem(folder, packages, recipe.user)),
      await layer("node", (folder) => fillNode(folder, node)),
    ];
    images.push(layout.addImage(architecture, [...system, ...shared]));
    const debian = lock[architecture];
    const facts = { name: image, version, architecture, recipe, debian, closure, entries, epoch };
    const bill = JSON.stringify(billOfMaterials(facts), undefined, 2);
    writeFileSync(path.join(output, `sbom-${architecture}.cdx.json`), `${bill}\n`);
  }
  return layout.finish(images, layoutTag);
}

function imageConfig(
  name: ImageName,
  version: string,
  { user, application }: ImageRecipe,
): Readonly<Record<string, unknown>> {
  const program = `/${installFolder}/${application}/${bundleFolder}/main.js`;
  return {
    User: `${user}:${user}`,
    // Makes stack traces name lines of the sources.
    Entrypoint: ["/usr/bin/node", "--enable-source-maps", ...nodeFlags, program],
    Env: [
      "PATH=/usr/bin",
      "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
      "NODE_ENV=production",
      ...Object.entries(allocatorSettings).map(([name, value]) => `${name}=${value}`),
    ],
    WorkingDir: "/",
    Labels: {
      "org.opencontainers.image.title": name,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "Apache-2.0",
    },
  };
}

function readLockFile(): { readonly version: string; readonly packages: LockEntries } {
  const text = readFileSync(path.join(root, "package-lock.json"), "utf8");
  return JSON.parse(text) as { version: string; packages: LockEntries }; // npm's format
}
