import { limitExceeded, unsafeEntry } from "../errors.ts";
import { closeFolder, openChild } from "./descriptor-path.ts";
import { PathSet } from "./path-set.ts";
import { isFolder, namesIn, removeTree } from "./remove-tree.ts";

/** What a name says about the layers below, by the rules of the OCI image specification, "layer". */
export type Whiteout =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "opaque" }
  | { readonly kind: "aufs" };

const prefix = ".wh.";

/** Reads the last part of an entry's name; undefined if it is an ordinary one. @throws `IMAGE_UNSAFE_ENTRY` */
export function parseWhiteout(base: string): Whiteout | undefined {
  if (!base.startsWith(prefix)) return undefined;
  if (base === ".wh..wh..opq") return { kind: "opaque" };
  // Bookkeeping of AUFS, which old builders left in their layers.
  if (base.startsWith(".wh..wh.")) return { kind: "aufs" };
  const name = base.slice(prefix.length);
  if (name === "" || name === "." || name === "..") {
    throw unsafeEntry("it deletes a folder from within");
  }
  return { kind: "name", name };
}

/**
 * The real paths that the current layer has made, with the folders above them. A whiteout hides
 * what is below its layer, wherever among the layer's entries it stands; so what is in here stays.
 */
export class LayerPaths {
  readonly #paths: PathSet;
  /** Folders that are already rid of lower layers: each is looked through once. */
  readonly #cleared: PathSet;

  /** @param maxBytes of memory that the paths may take, and as much again for cleared folders */
  constructor(maxBytes: number) {
    const mayGrow = (bytes: number): void => {
      if (bytes > maxBytes) throw limitExceeded("bytes of names in a layer", maxBytes);
    };
    this.#paths = new PathSet(mayGrow);
    this.#cleared = new PathSet(mayGrow);
  }

  /** @throws `IMAGE_LIMIT_EXCEEDED` */
  add(path: string): void {
    let current = path;
    while (this.#paths.add(current)) {
      const slash = current.lastIndexOf("/");
      if (slash === -1) return;
      current = current.slice(0, slash);
    }
  }

  has(path: string): boolean {
    return this.#paths.has(path);
  }

  /** Notes that a folder is rid of lower layers. @returns false if it was before @throws `IMAGE_LIMIT_EXCEEDED` */
  clearFolder(path: string): boolean {
    return this.#cleared.add(path);
  }

  clear(): void {
    this.#paths.clear();
    this.#cleared.clear();
  }
}

/** Removes what lower layers have at a name, not what `kept` has there. */
export function hideName(folder: number, path: string, name: string, kept: LayerPaths): void {
  const own = path === "" ? name : `${path}/${name}`;
  if (!kept.has(own)) return removeTree(folder, name);
  if (!isFolder(folder, name)) return;
  const child = openChild(folder, name);
  try {
    hideContent(child, own, kept);
  } finally {
    closeFolder(child);
  }
}

/** Removes what lower layers have in a folder, not what `kept` has there. */
export function hideContent(folder: number, path: string, kept: LayerPaths): void {
  if (!kept.clearFolder(path)) return;
  for (const name of namesIn(folder)) hideName(folder, path, name, kept);
}
