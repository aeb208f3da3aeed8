// Writes images with several layers and for several architectures as an OCI image layout.
import { createHash } from "node:crypto";
import { createReadStream, mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { runCommand } from "@kip/base";
import type { Architecture } from "./recipe.ts";

/** A blob of a layout, as in manifests. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** A compressed layer in the layout, with the hash of its uncompressed content. */
export interface Layer {
  readonly descriptor: Descriptor;
  readonly diffId: string;
  readonly createdBy: string;
}

/** Facts that are the same for the images of all architectures. */
export interface ImageFacts {
  /** The `config` object of the image configuration: `Entrypoint`, `User`, ... */
  readonly config: Readonly<Record<string, unknown>>;
  /** Time of all files and of the image, seconds since the Unix epoch. */
  readonly epoch: number;
}

const oci = "application/vnd.oci.image";

/**
 * Creates an OCI image layout. The same files result in the same digests: names are sorted, and owners, times and modes are
 * fixed. Compresses with the gzip program, whose output does not depend on the CPU, unlike that of Node's zlib.
 *
 * @see https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
 */
export class ImageLayout {
  readonly #folder: string;
  readonly #facts: ImageFacts;

  constructor(folder: string, facts: ImageFacts) {
    this.#folder = folder;
    this.#facts = facts;
    mkdirSync(path.join(folder, "blobs/sha256"), { recursive: true });
  }

  /** Packs a folder as a layer. Folders that every user may write to have to be named. */
  async addLayer(folder: string, createdBy: string): Promise<Layer> {
    const archive = path.join(this.#folder, `${createdBy}.tar`);
    const fixed = [`--mtime=@${this.#facts.epoch}`, "--owner=0", "--group=0", "--numeric-owner"];
    const modes = ["--sort=name", "--format=ustar", "--mode=u=rwX,go=rX"];
    await runCommand("tar", [...modes, ...fixed, "-cf", archive, "-C", folder, "."], {
      env: { ...process.env, LC_ALL: "C" },
    });
    const diffId = await hashOf(archive);
    await runCommand("gzip", ["--no-name", "-6", archive]);
    const descriptor = await this.#take(`${archive}.gz`, `${oci}.layer.v1.tar+gzip`);
    return { descriptor, diffId, createdBy };
  }

  /** Adds the image of an architecture. */
  addImage(
    architecture: Architecture,
    layers: readonly Layer[],
  ): Descriptor & { platform: object } {
    const created = new Date(this.#facts.epoch * 1000).toISOString().replace(".000Z", "Z");
    const config = this.#addJson(`${oci}.config.v1+json`, {
      created,
      architecture,
      os: "linux",
      config: this.#facts.config,
      rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
      history: layers.map(({ createdBy }) => ({ created, created_by: createdBy })),
    });
    const mediaType = `${oci}.manifest.v1+json`;
    const manifest = this.#addJson(mediaType, {
      schemaVersion: 2,
      mediaType,
      config,
      layers: layers.map(({ descriptor }) => descriptor),
    });
    return { ...manifest, platform: { architecture, os: "linux" } };
  }

  /** Adds the index of all architectures, which completes the layout. @returns the index's digest */
  finish(images: readonly Descriptor[], tag: string): string {
    const mediaType = `${oci}.index.v1+json`;
    const index = this.#addJson(mediaType, { schemaVersion: 2, mediaType, manifests: images });
    const annotations = { "org.opencontainers.image.ref.name": tag };
    const manifests = [{ ...index, annotations }];
    const write = (name: string, content: object): void =>
      writeFileSync(path.join(this.#folder, name), JSON.stringify(content));
    write("index.json", { schemaVersion: 2, mediaType, manifests });
    write("oci-layout", { imageLayoutVersion: "1.0.0" });
    return index.digest;
  }

  #addJson(mediaType: string, content: object): Descriptor {
    const bytes = Buffer.from(JSON.stringify(content));
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(path.join(this.#folder, "blobs/sha256", hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  }

  async #take(file: string, mediaType: string): Promise<Descriptor> {
    const digest = await hashOf(file);
    const size = statSync(file).size;
    renameSync(file, path.join(this.#folder, "blobs/sha256", digest.slice("sha256:".length)));
    return { mediaType, digest, size };
  }
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return `sha256:${hash.digest("hex")}`;
}

/** Removes the files of an earlier build. */
export function emptyLayout(folder: string): void {
  for (const name of ["blobs", "index.json", "oci-layout"])
    rmSync(path.join(folder, name), { recursive: true, force: true });
}

/** Compressed size of a layout's images, bytes, by architecture. */
export function layoutSizes(folder: string): ReadonlyMap<string, number> {
  const read = (digest: string): string =>
    readFileSync(path.join(folder, "blobs/sha256", digest.replace("sha256:", "")), "utf8");
  interface Index {
    readonly manifests: (Descriptor & { platform?: { architecture: string } })[];
  }
  const top = JSON.parse(readFileSync(path.join(folder, "index.json"), "utf8")) as Index; // written above
  const index = JSON.parse(read(top.manifests[0]?.digest ?? "")) as Index;
  return new Map(
    index.manifests.map(({ digest, platform }) => {
      const { layers } = JSON.parse(read(digest)) as { layers: Descriptor[] };
      return [platform?.architecture ?? "", layers.reduce((sum, { size }) => sum + size, 0)];
    }),
  );
}
