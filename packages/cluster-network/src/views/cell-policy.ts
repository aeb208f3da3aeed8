import { encodeLine, groupsOf } from "@kip/network-view";
import type { PolicyLine } from "./fitting-policy.ts";
import type { GroupLines } from "./group-lines.ts";

/** Where lines of groups come from. */
export interface GroupSource {
  readonly version: number;
  group(name: string): GroupLines | undefined;
}

/** A policy that a cell has, and as of which version its groups are. */
interface Before {
  readonly policy: CellPolicy | undefined;
  readonly version: number;
}

/** Stands for the policy of a cell that has none. */
const none = {};

/**
 * The policy of pods with the same rules, as lines: what one cell needs of it is found once for all cells that need the same.
 */
export class CellPolicy {
  readonly groups: ReadonlySet<string>;
  /** The line that says it. */
  readonly line: Buffer;
  /** What cells need for one version, by what they have. */
  #found = new WeakMap<object, Map<number, readonly Buffer[]>>();
  #foundFor = 0;

  constructor({ policy, line }: PolicyLine) {
    this.groups = groupsOf(policy);
    this.line = Buffer.from(line);
  }

  /** Lines for a cell that has this policy, and its groups as of a version. */
  since(version: number, source: GroupSource): readonly Buffer[] {
    return this.#once({ policy: this, version }, source, () =>
      [...this.groups].flatMap((name) => filled(source.group(name)?.since(version))),
    );
  }

  /**
   * Lines for a cell that has another policy, or none.
   *
   * @param before what it has, with the groups as of a version
   * @param lapsed groups that it has, and that may lack changes before that version
   */
  instead(before: Before, lapsed: ReadonlySet<string>, source: GroupSource): readonly Buffer[] {
    const { policy, version } = before;
    const find = (): readonly Buffer[] => this.#instead(policy?.groups, version, lapsed, source);
    return lapsed.size > 0 ? find() : this.#once(before, source, find);
  }

  #instead(
    had: ReadonlySet<string> = new Set(),
    version: number,
    lapsed: ReadonlySet<string>,
    source: GroupSource,
  ): readonly Buffer[] {
    const groups = [...this.groups].flatMap((name) => {
      const group = source.group(name);
      return filled(had.has(name) && !lapsed.has(name) ? group?.since(version) : group?.all());
    });
    const gone = [...had].filter((name) => !this.groups.has(name));
    const lines = gone.map((name) => encodeLine({ kind: "group", name, change: "gone" }));
    return [...groups, this.line, ...filled(Buffer.from(lines.join("")))];
  }

  #once(
    { policy, version }: Before,
    source: GroupSource,
    find: () => readonly Buffer[],
  ): readonly Buffer[] {
    // Policies of before must not be kept by those that came in their place, each with what was found for it.
    if (source.version !== this.#foundFor) this.#found = new WeakMap();
    this.#foundFor = source.version;
    const known = this.#found.get(policy ?? none) ?? new Map<number, readonly Buffer[]>();
    const found = known.get(version) ?? find();
    this.#found.set(policy ?? none, known.set(version, found));
    return found;
  }
}

function filled(lines: Buffer | undefined): readonly Buffer[] {
  return lines && lines.length > 0 ? [lines] : [];
}
