import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";

/** Content of an image of one layer. */
export interface SingleLayerImage {
  /** Uncompressed tar archive. */
  readonly layer: Uint8Array;
  readonly architecture: "amd64" | "arm64";
  /** The `config` object of the image configuration: `Cmd`, `Env`, ... */
  readonly config: Readonly<Record<string, unknown>>;
  /** Tag in `index.json`. */
  readonly tag: string;
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/**
 * Writes an OCI image layout into an empty folder. The same content gives the same digests.
 *
 * @returns the manifest's digest
 * @see https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
 */
export async function writeOciLayout(directory: string, image: SingleLayerImage): Promise<string> {
  const blobs = path.join(directory, "blobs", "sha256");
  await mkdir(blobs, { recursive: true });
  const layer = await blob("application/vnd.oci.image.layer.v1.tar+gzip", gzipSync(image.layer));
  const epoch = "1970-01-01T00:00:00Z";
  const config = await blob("application/vnd.oci.image.config.v1+json", {
    created: epoch,
    architecture: image.architecture,
    os: "linux",
    config: image.config,
    rootfs: { type: "layers", diff_ids: [sha256(image.layer)] },
    history: [{ created: epoch, created_by: "kip demo image" }],
  });
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = await blob(mediaType, { schemaVersion: 2, mediaType, config, layers: [layer] });
  const annotations = { "org.opencontainers.image.ref.name": image.tag };
  await writeJson("index.json", {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [
      { ...manifest, platform: { architecture: image.architecture, os: "linux" }, annotations },
    ],
  });
  await writeJson("oci-layout", { imageLayoutVersion: "1.0.0" });
  return manifest.digest;

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

function sha256(data: Uint8Array): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
