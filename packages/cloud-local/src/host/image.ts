import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { decode, hostArchitecture, isSystemError } from "@kip/base";
import { type Architecture, CloudError } from "@kip/cloud";

/** A bootable image. */
export interface LocalImage {
  readonly id: string;
  readonly architecture: Architecture;
  /** Absolute paths. */
  readonly kernel: string;
  readonly initrd: string;
  /** Raw disk, which is never written to. */
  readonly rootDisk: string;
  readonly rootDiskBytes: number;
  readonly cmdline: string;
  /** Whether templates can be made of it. */
  readonly isTemplate: boolean;
  /** RFC 3339. */
  readonly created: string;
}

const imageDocument = decode.object({
  architecture: decode.optional(decode.oneOf("amd64", "arm64")),
  kernel: decode.string,
  initrd: decode.string,
  rootDisk: decode.string,
  rootDiskBytes: decode.integer,
  cmdline: decode.string,
  template: decode.optional(decode.boolean),
  created: decode.optional(decode.string),
});

/**
 * Reads `<imagesDir>/<id>/image.json`.
 *
 * @throws {CloudError} `CLOUD_NOT_FOUND` if there is no such image
 */
export async function readImage(imagesDir: string, id: string): Promise<LocalImage> {
  const folder = path.join(imagesDir, id);
  try {
    if (!/^[\w.-]+$/.test(id) || id.startsWith("."))
      throw new RangeError("it is not a valid image ID");
    const file = path.join(folder, "image.json");
    const found = imageDocument(JSON.parse(await readFile(file, "utf8")), file);
    return {
      id,
      architecture: found.architecture ?? hostArchitecture,
      kernel: path.join(folder, found.kernel),
      initrd: path.join(folder, found.initrd),
      rootDisk: path.join(folder, found.rootDisk),
      rootDiskBytes: found.rootDiskBytes,
      cmdline: found.cmdline,
      isTemplate: found.template ?? false,
      created: found.created ?? "",
    };
  } catch (error) {
    throw new CloudError("CLOUD_NOT_FOUND", `Cannot find cell image "${id}" in "${imagesDir}"`, {
      cause: error,
      remedy: 'Build it: "kip up" does so',
    });
  }
}

/**
 * Finds the image for a specification: by `id`, which may contain several IDs separated by blanks or commas, by `name`, or,
 * without either, any image. If several match, returns the newest for the processor.
 *
 * @throws {CloudError} `CLOUD_NOT_FOUND`; `CLOUD_INVALID_REQUEST` for any other key
 */
export async function findImage(
  imagesDir: string,
  spec: Readonly<Record<string, string>>,
  architecture: Architecture = hostArchitecture,
): Promise<LocalImage> {
  const unknown = Object.keys(spec).find((key) => key !== "id" && key !== "name");
  if (unknown !== undefined) {
    throw new CloudError("CLOUD_INVALID_REQUEST", `Cannot look up a cell image by "${unknown}"`, {
      remedy: 'The local cloud knows images by "id" or "name"',
    });
  }
  const wanted = spec["id"] ?? spec["name"];
  const images =
    wanted === undefined
      ? await readAll(imagesDir)
      : await Promise.all(idsIn(wanted).map(async (id) => await readImage(imagesDir, id)));
  const [newest] = images
    .filter((image) => image.architecture === architecture)
    .sort((a, b) => (a.created < b.created ? 1 : -1));
  if (newest) return newest;
  const which = wanted === undefined ? "a cell image" : `cell image "${wanted}"`;
  throw new CloudError(
    "CLOUD_NOT_FOUND",
    `Cannot find ${which} for ${architecture} in "${imagesDir}"`,
    {
      remedy: `Build one: "kip up${architecture === hostArchitecture ? "" : ` --architecture=${architecture}`}" does so`,
    },
  );
}

/** The IDs in a text. A text without any is returned as it is, and refused later as an invalid ID. */
function idsIn(text: string): readonly string[] {
  const ids = text.split(/[\s,]+/).filter((id) => id !== "");
  return ids.length === 0 ? [text] : ids;
}

async function readAll(imagesDir: string): Promise<readonly LocalImage[]> {
  const names = await readdir(imagesDir).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) return [];
    throw error;
  });
  const found = await Promise.allSettled(names.map((name) => readImage(imagesDir, name)));
  return found.filter((result) => result.status === "fulfilled").map((result) => result.value);
}
