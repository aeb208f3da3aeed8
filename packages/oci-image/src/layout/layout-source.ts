import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";
import { digestHex, verified } from "../digest.ts";
import { ImageError, invalidImage } from "../errors.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import { parseManifest, type Descriptor } from "../manifest.ts";
import { formatReference, type Reference } from "../reference.ts";

const nameAnnotation = "org.opencontainers.image.ref.name";

/** Opens an OCI image layout, a folder with `index.json` and `blobs/` (OCI image specification, image-layout). */
export function openLayout(folder: string, reference: Reference): ImageSource {
  return {
    async root() {
      return await readManifest(folder, await chooseDescriptor(folder, reference));
    },
    async manifest(descriptor) {
      return await readManifest(folder, descriptor);
    },
    blob: async (descriptor) => readBlob(folder, descriptor),
  };
}

/** Finds the descriptor for a reference in `index.json`. @throws `IMAGE_NOT_FOUND`, `IMAGE_INVALID` */
export async function chooseDescriptor(folder: string, reference: Reference): Promise<Descriptor> {
  const index = parseManifest(await readIndex(folder), undefined);
  if (index.kind !== "index") throw invalidImage("index.json of the layout is not an index");
  const { manifests } = index;
  if (reference.digest !== undefined) {
    const found = manifests.find(({ digest }) => digest === reference.digest);
    if (found) return found;
    throw notFound(`the layout has no ${reference.digest}`);
  }
  const names = [reference.tag, formatReference(reference)];
  const named = manifests.find(({ annotations }) => names.includes(annotations?.[nameAnnotation]));
  const only = manifests.length === 1 ? manifests[0] : undefined;
  const chosen = named ?? only;
  if (chosen) return chosen;
  throw notFound(`the layout has ${manifests.length} images, none of them by this name`);
}

/** The unverified bytes of a blob. */
export async function* readBlob(
  folder: string,
  descriptor: Descriptor,
): AsyncGenerator<Uint8Array> {
  const name = path.join(folder, "blobs", "sha256", digestHex(descriptor.digest));
  await using file = await openFile(name).catch((error: unknown) => {
    const reason = isSystemError(error, "ENOENT") ? "lacks" : "has an unreadable";
    throw invalidImage(`the layout ${reason} blob ${descriptor.digest}`, error);
  });
  yield* file.createReadStream({ highWaterMark: 128 * 1024, autoClose: false });
}

/** A layout may come from a stranger, so links to other files and pipes are refused. */
async function openFile(name: string): Promise<FileHandle> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw invalidImage(`"${name}" is not a file`);
}

async function readManifest(folder: string, descriptor: Descriptor): Promise<FetchedManifest> {
  if (descriptor.size > maxDocumentBytes) throw invalidImage("its manifest is oversized");
  const chunks: Uint8Array[] = [];
  for await (const chunk of verified(readBlob(folder, descriptor), descriptor)) chunks.push(chunk);
  const { digest, mediaType } = descriptor;
  return { bytes: Buffer.concat(chunks), digest, mediaType };
}

async function readIndex(folder: string): Promise<Uint8Array> {
  try {
    await using file = await openFile(path.join(folder, "index.json"));
    if ((await file.stat()).size > maxDocumentBytes)
      throw invalidImage("its index.json is oversized");
    return await file.readFile();
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "ENOTDIR")) throw error;
    throw new ImageError("IMAGE_NOT_FOUND", "the folder is no OCI layout: it has no index.json", {
      cause: error,
      remedy: 'Name a folder as "skopeo copy … oci:<folder>" makes it',
    });
  }
}

function notFound(reason: string): Error {
  return new ImageError("IMAGE_NOT_FOUND", reason, {
    remedy: "Name one that is in its index.json",
  });
}
