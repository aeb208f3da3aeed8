import { createHash, randomBytes } from "node:crypto";
import { createWriteStream, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { PassThrough, type Readable, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip, createZstdCompress } from "node:zlib";
import { header } from "../packages/oci-image/test/fixtures/tar-writer.ts";

/** What a made image is like. */
export interface ImageShape {
  readonly name: string;
  readonly layers: number;
  /** Files of each layer. */
  readonly files: number;
  /** Bytes of each file. */
  readonly fileBytes: number;
}

export type ImageFormat = "gzip" | "zstd";

/** Where the parts of a made image are. */
export interface MadeImage {
  readonly layout: string;
  /** Blobs of the layers. */
  readonly blobs: readonly string[];
}

interface Layer {
  readonly digest: string;
  readonly size: number;
  readonly diffId: string;
}

/** About half of it compresses, as in images of programs. */
const noise = randomBytes(4 * 1024 * 1024);
const words = Buffer.alloc(4 * 1024 * 1024, "the quick brown fox jumps over the lazy dog; ");

/** Writes an image as an OCI layout. */
export async function makeImage(
  folder: string,
  shape: ImageShape,
  format: ImageFormat,
): Promise<MadeImage> {
  const blobs = path.join(folder, "blobs", "sha256");
  mkdirSync(blobs, { recursive: true });
  const layers: Layer[] = [];
  for (let index = 0; index < shape.layers; index++) {
    layers.push(await writeLayer(blobs, entries(shape, index), format));
  }
  const put = (value: object, mediaType: string): object => {
    const bytes = Buffer.from(JSON.stringify(value));
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(path.join(blobs, hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const config = put(
    {
      os: "linux",
      architecture: process.arch === "arm64" ? "arm64" : "amd64",
      config: { Cmd: ["/bin/true"] },
      rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    },
    "application/vnd.oci.image.config.v1+json",
  );
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const layerType = `application/vnd.oci.image.layer.v1.tar+${format}`;
  const manifest = put(
    {
      schemaVersion: 2,
      mediaType,
      config,
      layers: layers.map(({ digest, size }) => ({ mediaType: layerType, digest, size })),
    },
    mediaType,
  );
  const annotations = { "org.opencontainers.image.ref.name": "latest" };
  const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations }] };
  writeFileSync(path.join(folder, "index.json"), JSON.stringify(index));
  writeFileSync(path.join(folder, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  return { layout: folder, blobs: layers.map(({ digest }) => path.join(blobs, digest.slice(7))) };
}

function* entries({ files, fileBytes }: ImageShape, layer: number): Generator<Buffer> {
  for (let index = 0; index < files; index++) {
    if (index % 100 === 0) yield header({ name: folderOf(layer, index), type: "5" });
    yield header({ name: `${folderOf(layer, index)}file-${index}`, size: fileBytes });
    for (let left = fileBytes; left > 0; left -= 32_768) yield content(Math.min(left, 32_768));
    yield Buffer.alloc((512 - (fileBytes % 512)) % 512);
  }
  yield Buffer.alloc(1024);
}

function folderOf(layer: number, index: number): string {
  return `layer-${layer}/folder-${Math.floor(index / 100)}/`;
}

function content(length: number): Buffer {
  const half = length >> 1;
  const start = Math.floor(Math.random() * (noise.length - half));
  return Buffer.concat([noise.subarray(start, start + half), words.subarray(0, length - half)]);
}

async function writeLayer(
  folder: string,
  archive: Iterable<Buffer>,
  format: ImageFormat,
): Promise<Layer> {
  const plain = createHash("sha256");
  const packed = createHash("sha256");
  const draft = path.join(folder, "draft");
  const compress = format === "gzip" ? createGzip({ level: 6 }) : createZstdCompress();
  await pipeline(
    chunks(archive) as unknown as Readable, // an async iterable of buffers
    hashing(plain),
    compress,
    hashing(packed),
    createWriteStream(draft),
  );
  const hex = packed.digest("hex");
  const size = statSync(draft).size;
  renameSync(draft, path.join(folder, hex));
  return { digest: `sha256:${hex}`, size, diffId: `sha256:${plain.digest("hex")}` };
}

async function* chunks(archive: Iterable<Buffer>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let length = 0;
  for (const piece of archive) {
    pieces.push(piece);
    length += piece.length;
    if (length < 1024 * 1024) continue;
    yield await Promise.resolve(Buffer.concat(pieces));
    pieces = [];
    length = 0;
  }
  if (length > 0) yield Buffer.concat(pieces);
}

function hashing(hash: ReturnType<typeof createHash>): Transform {
  return new PassThrough({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(undefined, chunk);
    },
  });
}
