import { encodeLine, groupsOf } from "@kip/network-view";
import type { PolicyLine } from "./fitting-policy.ts";
import type { GroupLines } from "./group-lines.ts";

/** Where lines of groups come from. */
export interface GroupSource {
  readonly version: number;
  group(name: string): GroupLines | undefined;
}

/** The policy that a cell has, and the version that its groups are of. */
interface Before {
  readonly policy: CellPolicy | undefined;
  readonly version: number;
}

/** A key of `#found` for cells without a policy. */
const none = {};

/** The policy of pods with the same rules, as lines. The lines that take a cell from one state to another are made once for all such cells. */
export class CellPolicy {
  readonly groups: ReadonlySet<string>;
  /** The line of the policy itself, without groups. */
  readonly line: Buffer;
  /** Lines for the version `#foundFor`, by the policy and version that cells have. */
  #found = new WeakMap<object, Map<number, readonly Buffer[]>>();
  #foundFor = 0;

  constructor({ policy, line }: PolicyLine) {
    this.groups = groupsOf(policy);
    this.line = Buffer.from(line);
  }

  /** Lines for a cell that has this policy, with groups of an earlier version. */
  since(version: number, source: GroupSource): readonly Buffer[] {
    return this.#cached({ policy: this, version }, source, () =>
      [...this.groups].flatMap((name) => nonEmpty(source.group(name)?.since(version))),
    );
  }

  /**
   * Lines for a cell that has another policy, or none.
   *
   * @param before what the cell has
   * @param staleGroups groups that the cell has, and that may lack changes of that version or earlier ones: they are sent whole
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
    // A new map for each version: otherwise each policy would keep those that it has replaced, with their lines.
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
