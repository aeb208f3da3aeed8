import { limitExceeded, unsafeEntry } from "../errors.ts";
import { closeFolder, openChild } from "./descriptor-path.ts";
import { PathSet } from "./path-set.ts";
import { isFolder, namesIn, removalSteps } from "./remove-tree.ts";

/** The effect of a name on the layers below, by the rules in the OCI image specification, "layer". */
export type Whiteout =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "opaque" }
  | { readonly kind: "aufs" };

const prefix = ".wh.";

/** Parses the last component of an entry's name. Undefined for an ordinary name. @throws `IMAGE_UNSAFE_ENTRY` */
export function parseWhiteout(base: string): Whiteout | undefined {
  if (!base.startsWith(prefix)) return undefined;
  if (base === ".wh..wh..opq") return { kind: "opaque" };
  // Internal files of AUFS, which old builders have left in layers.
  if (base.startsWith(".wh..wh.")) return { kind: "aufs" };
  const name = base.slice(prefix.length);
  if (name === "" || name === "." || name === "..") {
    throw unsafeEntry("it deletes a folder from within");
  }
  return { kind: "name", name };
}

/**
 * The real paths that the current layer has created, and their parent folders. A whiteout only hides lower layers, wherever it
 * is among the layer's entries. So these paths stay.
 */
export class LayerPaths {
  readonly #paths: PathSet;
  /** Folders without content of lower layers. Each is searched once. */
  readonly #cleared: PathSet;

  /** @param maxBytes memory for the paths. Cleared folders may take the same amount again */
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

  /**
   * Records that a folder has no content of lower layers. @returns false if it was already recorded @throws
   * `IMAGE_LIMIT_EXCEEDED`
   */
  clearFolder(path: string): boolean {
    return this.#cleared.add(path);
  }

  clear(): void {
    this.#paths.clear();
    this.#cleared.clear();
  }
}

/** Removes what lower layers have at a name, except for paths in `kept`. In steps, one for each file or folder. */
export function* hideName(
  folder: number,
  path: string,
  name: string,
  kept: LayerPaths,
): Generator<void, void, void> {
  const own = path === "" ? name : `${path}/${name}`;
  if (!kept.has(own)) {
    yield* removalSteps(folder, name);
    return;
  }
  if (!isFolder(folder, name)) return;
  const child = openChild(folder, name);
  try {
    yield* hideContent(child, own, kept);
  } finally {
    closeFolder(child);
  }
}

/** Removes what lower layers have in a folder, except for paths in `kept`. In steps, one for each file or folder. */
export function* hideContent(
  folder: number,
  path: string,
  kept: LayerPaths,
): Generator<void, void, void> {
  if (!kept.clearFolder(path)) return;
  for (const name of namesIn(folder)) yield* hideName(folder, path, name, kept);
}
