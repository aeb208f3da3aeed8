import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import type { Architecture } from "@kip/base";

/** One layer of an image, for one architecture. */
export interface ImageLayer {
  /** Uncompressed tar archive. */
  readonly layer: Uint8Array;
  readonly architecture: Architecture;
}

/** Content of an image with one layer. */
export interface SingleLayerImage {
  /** One layer per architecture. With several, the tag names an index. */
  readonly layers: readonly ImageLayer[];
  /** The `config` object of the image configuration: `Cmd`, `Env`, ... */
  readonly config: Readonly<Record<string, unknown>>;
  /** Tag in `index.json`. */
  readonly tag: string;
}

const mediaTypes = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
};

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/**
 * Writes an OCI image layout into an empty folder. The same content gives the same digests.
 *
 * @returns the digest of the manifest, or of the index
 * @see https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
 */
export async function writeOciLayout(directory: string, image: SingleLayerImage): Promise<string> {
  const blobs = path.join(directory, "blobs", "sha256");
  await mkdir(blobs, { recursive: true });
  const annotations = { "org.opencontainers.image.ref.name": image.tag };
  const manifests: (Descriptor & { readonly platform: object })[] = [];
  for (const each of image.layers) manifests.push(await writeManifest(each));
  const [first, ...others] = manifests;
  if (!first) throw new RangeError("an image has a layer");
  const tagged = others.length === 0 ? first : await blob(mediaTypes.index, indexOf(manifests));
  await writeJson("index.json", indexOf([{ ...tagged, annotations }]));
  await writeJson("oci-layout", { imageLayoutVersion: "1.0.0" });
  return tagged.digest;

  async function writeManifest({ layer: archive, architecture }: ImageLayer) {
    const layer = await blob(mediaTypes.layer, gzipSync(archive));
    const epoch = "1970-01-01T00:00:00Z";
    const config = await blob(mediaTypes.config, {
      created: epoch,
      architecture,
      os: "linux",
      config: image.config,
      rootfs: { type: "layers", diff_ids: [sha256(archive)] },
      history: [{ created: epoch, created_by: "kip demo image" }],
    });
    const mediaType = mediaTypes.manifest;
    const content = { schemaVersion: 2, mediaType, config, layers: [layer] };
    const descriptor = await blob(mediaType, content);
    return { ...descriptor, platform: { architecture, os: "linux" } };
  }

  async function blob(mediaType: string, content: Uint8Array | object): Promise<Descriptor> {
    const bytes = content instanceof Uint8Array ? content : Buffer.from(JSON.stringify(content));
    const digest = sha256(bytes);
    await writeFile(path.join(blobs, digest.slice("sha256:".length)), bytes);
    return { mediaType, digest, size: bytes.length };
  }

  async function writeJson(name: string, content: object): Promise<void> {
    await writeFile(path.join(directory, name), JSON.stringify(content));
  }
}

function indexOf(manifests: readonly object[]): object {
  return { schemaVersion: 2, mediaType: mediaTypes.index, manifests };
}

function sha256(data: Uint8Array): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
