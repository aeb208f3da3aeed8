import { encodeLine, groupsOf } from "@kip/network-view";
import type { PolicyLine } from "./fitting-policy.ts";
import type { GroupLines } from "./group-lines.ts";

/** Provides the lines of groups. */
export interface GroupSource {
  readonly version: number;
  group(name: string): GroupLines | undefined;
}

/** The policy that a cell has, and the version of its groups. */
interface Before {
  readonly policy: CellPolicy | undefined;
  readonly version: number;
}

/** The key in `#found` for cells without a policy. */
const none = {};

/** The policy of pods with the same rules, as encoded lines. The lines that change a cell from one state to another are shared by all such cells. */
export class CellPolicy {
  readonly groups: ReadonlySet<string>;
  /** The line of the policy itself, without groups. */
  readonly line: Buffer;
  /** Cached lines for the version `#foundFor`, by the policy and version that cells have. */
  #found = new WeakMap<object, Map<number, readonly Buffer[]>>();
  #foundFor = 0;

  constructor({ policy, line }: PolicyLine) {
    this.groups = groupsOf(policy);
    this.line = Buffer.from(line);
  }

  /** Lines for a cell that has this policy and groups of an earlier version. */
  since(version: number, source: GroupSource): readonly Buffer[] {
    return this.#cached({ policy: this, version }, source, () =>
      [...this.groups].flatMap((name) => nonEmpty(source.group(name)?.since(version))),
    );
  }

  /**
   * Lines for a cell that has another policy, or none.
   *
   * @param before the policy and version that the cell has
   * @param staleGroups groups of the cell that may lack changes of that version or earlier ones. They are sent completely
   */
  linesReplacing(
    before: Before,
    staleGroups: ReadonlySet<string>,
    source: GroupSource,
  ): readonly Buffer[] {
    const { policy, version } = before;
    const find = (): readonly Buffer[] =>
      this.#linesReplacing(policy?.groups, version, staleGroups, source);
    return staleGroups.size > 0 ? find() : this.#cached(before, source, find);
  }

  #linesReplacing(
    had: ReadonlySet<string> = new Set(),
    version: number,
    staleGroups: ReadonlySet<string>,
    source: GroupSource,
  ): readonly Buffer[] {
    const groups = [...this.groups].flatMap((name) => {
      const group = source.group(name);
      return nonEmpty(
        had.has(name) && !staleGroups.has(name) ? group?.since(version) : group?.all(),
      );
    });
    const gone = [...had].filter((name) => !this.groups.has(name));
    const lines = gone.map((name) => encodeLine({ kind: "group", name, change: "gone" }));
    return [...groups, this.line, ...nonEmpty(Buffer.from(lines.join("")))];
  }

  #cached(
    { policy, version }: Before,
    source: GroupSource,
    find: () => readonly Buffer[],
  ): readonly Buffer[] {
    // Use a new map for each version. Otherwise each policy would keep the policies that it has replaced, with their lines.
    if (source.version !== this.#foundFor) this.#found = new WeakMap();
    this.#foundFor = source.version;
    const known = this.#found.get(policy ?? none) ?? new Map<number, readonly Buffer[]>();
    const found = known.get(version) ?? find();
    this.#found.set(policy ?? none, known.set(version, found));
    return found;
  }
}

function nonEmpty(lines: Buffer | undefined): readonly Buffer[] {
  return lines && lines.length > 0 ? [lines] : [];
}
