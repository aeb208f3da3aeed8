import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { decode } from "@kip/base";
import { buildDemoImage, buildPackageTree } from "@kip/cell-image";
import { parseReference, pushLayout } from "@kip/oci-image";
import { tar, temporaryFolder, writeLayout } from "@kip/testing";
import { imageEntries, type ImageSources } from "./image-entries.ts";
import { keptCertificate } from "./kept-certificate.ts";
import { debianPackages, networkPrograms, specImages } from "./spec-images.ts";

/** The registry in the specs' image names. The cluster's settings redirect it to the local registry. */
export const specRegistry = "registry.k8s.io";

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const decodeManifest = decode.object({
  layers: decode.list(decode.object({ digest: decode.string })),
});

/** Options of {@link pushSpecImages}. */
export interface PushImagesOptions {
  readonly cacheDir: string;
  /** Port of the cluster's local registry at 127.0.0.1. */
  readonly registryPort: number;
  readonly programs: Pick<ImageSources, "built" | "controlPlane">;
  /** All image references in the specs' program. Each image gets the tags that these have. */
  readonly named: readonly string[];
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Builds all images for the specs, and pushes them to the cluster's local registry. */
export async function pushSpecImages(options: PushImagesOptions): Promise<void> {
  const { cacheDir, onProgress, signal } = options;
  const base = await baseLayer(await buildDemoImage({ cacheDir, onProgress, signal }));
  const debian = await buildPackageTree({ cacheDir, packages: debianPackages, onProgress, signal });
  const sources = { ...options.programs, debian, certificate: await keptCertificate(cacheDir) };
  const registries = [{ host: specRegistry, endpoint: `http://127.0.0.1:${options.registryPort}` }];
  onProgress(`Making ${specImages.length} images and putting them into the local registry`);
  using work = temporaryFolder();
  const network = tar(await imageEntries({ programs: networkPrograms }, sources));
  for (const image of specImages) {
    const tags = tagsIn(options.named, image.repository);
    if (tags.length === 0) continue; // another version uses it
    const layout = path.join(work.path, image.repository);
    const entries = await imageEntries(image, sources);
    const config = { Env: [searchPath], WorkingDir: "/", ...image.config };
    const layers: Buffer[] = [base];
    if (image.hasNetworkPrograms) layers.push(network);
    if (entries.length > 0) layers.push(tar(entries));
    writeLayout(layout, { layers, config, names: tags });
    for (const tag of tags)
      await pushLayout(layout, parseReference(`${specRegistry}/${image.repository}:${tag}`), {
        registries,
        signal,
      });
    await rm(layout, { recursive: true });
  }
}

/** The tags of references to this repository of the specs' registry. */
export function tagsIn(references: readonly string[], repository: string): readonly string[] {
  const start = `${specRegistry}/${repository}:`;
  return references
    .filter((reference) => reference.startsWith(start))
    .map((reference) => reference.slice(start.length));
}

/** The only layer of the demo image, as a tar archive: Debian's busybox and a shell. */
async function baseLayer({
  layoutDir,
  digest,
}: {
  readonly layoutDir: string;
  readonly digest: string;
}) {
  const blob = async (id: string): Promise<Buffer> =>
    await readFile(path.join(layoutDir, "blobs/sha256", id.replace("sha256:", "")));
  const { layers } = decodeManifest(JSON.parse((await blob(digest)).toString()), "manifest");
  return gunzipSync(await blob(layers[0]?.digest ?? ""));
}
