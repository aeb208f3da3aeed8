import { createHash } from "node:crypto";
import { createWriteStream, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip, createZstdCompress } from "node:zlib";
import { tarHeader } from "@kip/testing";
import { content, Sequence } from "./image-content.ts";

/** Describes the image to make. */
export interface ImageShape {
  readonly name: string;
  readonly layers: number;
  /** Number of files in each layer. */
  readonly files: number;
  /** Bytes of an average file. Files have from nearly none to twice as many. */
  readonly fileBytes: number;
}

export type ImageFormat = "gzip" | "zstd";

/** Where the parts of the image are. */
export interface MadeImage {
  readonly layout: string;
  /** Blobs of the layers, the bottom layer first. */
  readonly blobs: readonly string[];
  /** Total size of all blobs, and of all archives in them. */
  readonly packedBytes: number;
  readonly plainBytes: number;
}

interface Layer {
  readonly digest: string;
  readonly size: number;
  readonly plainSize: number;
  readonly diffId: string;
}

const pieceBytes = 32_768;
const filesOfFolder = 40;

/** Writes an image as an OCI layout, with the same bytes in every run. */
export async function makeImage(
  folder: string,
  shape: ImageShape,
  format: ImageFormat,
): Promise<MadeImage> {
  const blobs = path.join(folder, "blobs", "sha256");
  mkdirSync(blobs, { recursive: true });
  const layers: Layer[] = [];
  // Two at a time, because compressing takes most of the time.
  for (let index = 0; index < shape.layers; index += 2) {
    const pair = [index, index + 1].filter((it) => it < shape.layers);
    layers.push(...(await Promise.all(pair.map((it) => writeLayer(blobs, shape, it, format)))));
  }
  writeDocuments(folder, layers, format);
  return {
    layout: folder,
    blobs: layers.map(({ digest }) => path.join(blobs, digest.slice(7))),
    packedBytes: layers.reduce((sum, { size }) => sum + size, 0),
    plainBytes: layers.reduce((sum, { plainSize }) => sum + plainSize, 0),
  };
}

function writeDocuments(folder: string, layers: readonly Layer[], format: ImageFormat): void {
  const put = (value: object, mediaType: string): object => {
    const bytes = Buffer.from(JSON.stringify(value));
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(path.join(folder, "blobs", "sha256", hex), bytes);
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
}

/** Folders with 40 files of all sizes, a link and a hard link. Some files belong to another user. */
function* entries({ files, fileBytes }: ImageShape, layer: number): Generator<Buffer> {
  const sequence = new Sequence(100 + layer);
  for (let index = 0; index < files; index++) {
    const folder = `layer-${layer}/folder-${Math.floor(index / filesOfFolder)}/`;
    const name = `${folder}file-${index}`;
    if (index % filesOfFolder === 0) yield tarHeader({ name: folder, type: "5" });
    const size = files < 4 ? fileBytes : 1 + sequence.below(2 * fileBytes);
    const uid = index % 10 === 0 ? 1000 : 0;
    yield tarHeader({ name, size, uid, gid: uid, mode: index % 5 === 0 ? 0o755 : 0o644 });
    for (let left = size; left > 0; left -= pieceBytes) {
      yield content(sequence, Math.min(left, pieceBytes));
    }
    yield Buffer.alloc((512 - (size % 512)) % 512);
    if (index % filesOfFolder > 0) continue;
    yield tarHeader({ name: `${folder}link`, type: "2", linkName: `file-${index}` });
    yield tarHeader({ name: `${folder}second`, type: "1", linkName: name });
  }
  yield Buffer.alloc(1024);
}

async function writeLayer(
  folder: string,
  shape: ImageShape,
  index: number,
  format: ImageFormat,
): Promise<Layer> {
  const plain = new Meter();
  const packed = new Meter();
  const draft = path.join(folder, `draft-${index}`);
  await pipeline(
    chunks(entries(shape, index)) as unknown as Readable, // an async iterable of buffers
    plain,
    format === "gzip" ? createGzip({ level: 6 }) : createZstdCompress(),
    packed,
    createWriteStream(draft),
  );
  const hex = packed.hex();
  renameSync(draft, path.join(folder, hex));
  const { size } = statSync(path.join(folder, hex));
  return { digest: `sha256:${hex}`, size, plainSize: plain.bytes, diffId: `sha256:${plain.hex()}` };
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

/** Counts and hashes the data that passes. */
class Meter extends PassThrough {
  readonly #hash = createHash("sha256");
  bytes = 0;

  constructor() {
    super({
      transform: (chunk: Buffer, _encoding, done) => {
        this.#hash.update(chunk);
        this.bytes += chunk.length;
        done(undefined, chunk);
      },
    });
  }

  hex(): string {
    return this.#hash.digest("hex");
  }
}
