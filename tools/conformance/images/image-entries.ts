import { readFile, realpath } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import type { RawEntry } from "@kip/testing";
import type { ImageProgram, SpecImage } from "./spec-images.ts";

/** The sources of the images' content. */
export interface ImageSources {
  /** Programs built from Kubernetes' modules. */
  readonly built: string;
  /** Programs of the control plane. */
  readonly controlPlane: string;
  /** Files of Debian packages, with their paths below `/`. */
  readonly debian: string;
  /** For the servers in images. */
  readonly certificate: KeyPair;
}

const loader = "lib64/ld-linux-x86-64.so.2";
const libraryFolders = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/** The tar entries that an image adds to its base: folders first, and each only once. */
export async function imageEntries(
  image: Pick<SpecImage, "hasCertificate" | "programs" | "files" | "links" | "folders">,
  sources: ImageSources,
): Promise<readonly RawEntry[]> {
  const entries = new Map<string, RawEntry>();
  for (const program of image.programs ?? [])
    for (const entry of await programEntries(program, sources)) entries.set(entry.name, entry);
  if (image.hasCertificate)
    for (const entry of certificateEntries(sources.certificate)) entries.set(entry.name, entry);
  for (const [name, content] of Object.entries(image.files ?? {}))
    entries.set(name, { name, content, mode: content.startsWith("#!") ? 0o755 : 0o644 });
  for (const [name, linkName] of Object.entries(image.links ?? {}))
    entries.set(name, { name, type: "2", linkName });
  return [...parentsOf([...entries.keys()], image.folders ?? []), ...entries.values()];
}

/** The parent folders of files, and additional folders, the outermost first. */
export function parentsOf(
  files: readonly string[],
  folders: readonly string[],
): readonly RawEntry[] {
  const names = new Set<string>();
  const add = (name: string): void => {
    if (name === ".") return;
    add(path.posix.dirname(name));
    names.add(name);
  };
  for (const folder of folders) add(folder);
  for (const file of files) add(path.posix.dirname(file));
  return [...names].map((name) => ({ name: `${name}/`, type: "5" }));
}

function certificateEntries({ certificate, key }: KeyPair): readonly RawEntry[] {
  return [
    { name: "localhost.crt", content: certificate, mode: 0o644 },
    { name: "localhost.key", content: key, mode: 0o644 },
  ];
}

async function programEntries(
  { path: name, from, mode = 0o755 }: ImageProgram,
  folders: ImageSources,
): Promise<readonly RawEntry[]> {
  if ("built" in from)
    return [{ name, mode, content: await readFile(path.join(folders.built, from.built)) }];
  if ("controlPlane" in from)
    return [
      { name, mode, content: await readFile(path.join(folders.controlPlane, from.controlPlane)) },
    ];
  const file = path.join(folders.debian, from.debian);
  const program = { name, mode, content: await readFile(file) };
  return [program, ...(await libraryEntries(file, folders.debian))];
}

/** The libraries of a Debian program, as found in the tree by its own loader. */
async function libraryEntries(file: string, tree: string): Promise<readonly RawEntry[]> {
  const places = libraryFolders.map((folder) => path.join(tree, folder)).join(":");
  const { stdout } = await runCommand(path.join(tree, loader), [
    "--library-path",
    places,
    "--list",
    file,
  ]);
  const names = new Set([loader, ...librariesOf(stdout, tree)]);
  return await Promise.all(
    [...names].map(async (name) => ({
      name,
      mode: 0o755,
      content: await readFile(await realpath(path.join(tree, name))),
    })),
  );
}

/** The paths below a tree in the loader's output, `NAME => PATH (ADDRESS)`. */
export function librariesOf(listed: string, tree: string): readonly string[] {
  return listed
    .split("\n")
    .map((line) => /=> (\S+) \(0x[0-9a-f]+\)$/.exec(line)?.[1] ?? "")
    .filter((file) => file.startsWith(`${tree}/`))
    .map((file) => file.slice(tree.length + 1));
}
