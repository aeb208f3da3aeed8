import { ByteCollector } from "../byte-collector.ts";
import { digestMismatch, invalidImage, limitExceeded, within } from "../errors.ts";
import { parseConfig, type ConfigDocument } from "../image-config.ts";
import { maxDocumentBytes, type ImageSource } from "../image-source.ts";
import { verified } from "../digest.ts";
import { mediaTypes, parseManifest, type Descriptor, type Manifest } from "../manifest.ts";
import {
  choosePlatform,
  formatPlatform,
  runsOn,
  wrongPlatform,
  type Platform,
} from "../platform.ts";
import type { UnpackLimits } from "../unpack/limits.ts";

/** A layer to download: its blob, and the digest of its inflated content. */
export interface LayerPlan {
  readonly blob: Descriptor;
  readonly diffId: string;
}

/** Everything about an image except the content of its layers. */
export interface ImagePlan extends ConfigDocument {
  readonly id: string;
  readonly layers: readonly LayerPlan[];
  readonly sizeBytes: number;
}

const configTypes: readonly string[] = [mediaTypes.ociConfig, mediaTypes.dockerConfig];

/** Finds the manifest for one platform, starting at a name's root manifest, and reads its configuration. */
export async function fetchPlan(
  source: ImageSource,
  root: {
    readonly bytes: Uint8Array;
    readonly mediaType?: string | undefined;
    readonly digest: string;
  },
  options: {
    readonly platform: Platform;
    readonly limits: UnpackLimits;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<ImagePlan> {
  const manifest = await fetchManifest(source, root, options);
  const { config: configBlob, layers } = manifest;
  if (!configTypes.includes(configBlob.mediaType)) {
    throw invalidImage(`it is not a container image but ${JSON.stringify(configBlob.mediaType)}`);
  }
  const sizeBytes = checkLimits(manifest, options.limits);
  const config = parseConfig(await readDocument(source, configBlob, options.signal));
  if (config.diffIds.length !== layers.length) {
    throw invalidImage(
      `its manifest has ${layers.length} layers, its configuration ${config.diffIds.length}`,
    );
  }
  if (config.platform.architecture !== "" && !runsOn(config.platform, options.platform)) {
    throw wrongPlatform(options.platform, formatPlatform(config.platform));
  }
  return {
    ...config,
    id: configBlob.digest,
    layers: layers.map((blob, index) => ({ blob, diffId: config.diffIds[index] ?? "" })),
    sizeBytes,
  };
}

/**
 * Checks the limits before anything is downloaded, because layers may have to wait on the disk.
 *
 * @returns the sum of the blobs' sizes, bytes
 * @throws {ImageError} code `IMAGE_LIMIT_EXCEEDED`
 */
export function checkLimits({ config, layers }: Manifest, limits: UnpackLimits): number {
  const sizeBytes = layers.reduce((sum, { size }) => sum + size, config.size);
  if (layers.length > limits.layers) throw limitExceeded("layers", limits.layers);
  if (sizeBytes > limits.unpackedBytes) throw limitExceeded("bytes", limits.unpackedBytes);
  return sizeBytes;
}

async function fetchManifest(
  source: ImageSource,
  root: { readonly bytes: Uint8Array; readonly mediaType?: string | undefined },
  options: { readonly platform: Platform; readonly signal?: AbortSignal | undefined },
): Promise<Manifest> {
  let parsed = parseManifest(root.bytes, root.mediaType);
  // An index may refer to another index. More than a few levels are not plausible.
  for (let level = 0; parsed.kind === "index"; level++) {
    if (level === 4) throw invalidImage("its indexes are nested too deep");
    const chosen = choosePlatform(parsed.manifests, options.platform);
    const fetched = await source.manifest(chosen, options.signal);
    const size = fetched.bytes.length;
    if (size !== chosen.size) throw digestMismatch("a manifest", `${chosen.size} bytes`, `${size}`);
    parsed = parseManifest(fetched.bytes, chosen.mediaType);
  }
  return parsed;
}

async function readDocument(
  source: ImageSource,
  blob: Descriptor,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  if (blob.size > maxDocumentBytes) throw invalidImage("its configuration is oversized");
  const read = new ByteCollector();
  try {
    for await (const chunk of verified(await source.blob(blob, signal), blob)) read.add(chunk);
  } catch (error) {
    throw within("its configuration", error);
  }
  return read.bytes();
}
