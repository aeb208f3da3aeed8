// The packages that an application of this repository loads, according to its lock file.

/** One entry of `packages` in package-lock.json. */
export interface LockEntry {
  readonly name?: string;
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly link?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** `packages` of package-lock.json: entries by their folder. */
export type LockEntries = Readonly<Record<string, LockEntry>>;

/** Result of {@link npmClosure}. */
export interface NpmClosure {
  /** Folders of the workspaces, including the application's. */
  readonly workspaces: readonly string[];
  /** Folders in `node_modules` of packages from the npm registry. */
  readonly packages: readonly string[];
}

/**
 * Everything that a workspace needs at run time, with the paths at which npm installed it.
 *
 * @param leftOut names of packages to leave out, together with everything that only they need
 * @throws {Error} if the lock file lacks a package
 */
export function npmClosure(
  entries: LockEntries,
  application: string,
  leftOut: readonly string[],
): NpmClosure {
  const found = new Set([application]);
  for (const folder of found) {
    const { dependencies, optionalDependencies } = entries[folder] ?? {};
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      if (leftOut.includes(name)) continue;
      const place = resolve(entries, folder, name);
      const entry = entries[place];
      found.add(entry?.link === true ? (entry.resolved ?? "") : place);
    }
  }
  const sorted = [...found].sort();
  return {
    workspaces: sorted.filter((folder) => !folder.includes("node_modules/")),
    packages: sorted.filter((folder) => folder.includes("node_modules/")),
  };
}

/** Finds a package like Node does: in the nearest `node_modules` folder upwards. */
function resolve(entries: LockEntries, folder: string, name: string): string {
  for (let from = folder; ; from = from.slice(0, Math.max(from.lastIndexOf("/"), 0))) {
    const place = from === "" ? `node_modules/${name}` : `${from}/node_modules/${name}`;
    if (entries[place]) return place;
    if (from === "") throw new Error(`package-lock.json has no ${name}, which ${folder} needs`);
  }
}
