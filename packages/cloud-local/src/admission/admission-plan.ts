/** What one machine takes of the host; bytes and whole CPUs. */
export interface Resources {
  readonly memory: number;
  readonly disk: number;
  readonly cpus: number;
}

/** What there is for further machines. */
export interface Room extends Resources {
  /** How many machines more may be starting. */
  readonly starts: number;
}

/** One who asks for a machine. */
export interface Asker {
  readonly key: string;
  /** When it was asked for, milliseconds since the epoch. */
  readonly createdAt: number;
  /** When it came here, for those that were asked for at the same time. */
  readonly arrivedAt: number;
  readonly needs: Resources;
}

/** Whether an asker may start, and if not, what it waits for. */
export type Verdict =
  | { readonly kind: "go" }
  | {
      readonly kind: "wait";
      readonly lack: keyof Room;
      /** How many have asked before and wait, too. */
      readonly ahead: number;
      /** Whether there would be enough without the older requests. */
      readonly isBehind: boolean;
    };

/** The verdict on one that may not start yet. */
export type Wait = Extract<Verdict, { kind: "wait" }>;

const kinds = ["memory", "disk", "cpus", "starts"] as const;

/**
 * The verdict on one of those who ask.
 *
 * @param askers all who ask, in any order; `key` is one of theirs
 * @see verdictsFor
 */
export function verdictFor(key: string, askers: readonly Asker[], room: Room): Verdict {
  const verdict = verdictsFor(askers, room).get(key);
  if (!verdict) throw new TypeError(`"${key}" is not among those who ask`);
  return verdict;
}

/**
 * Decides by one rule: who asked first is served first. What everyone older needs is set aside, whether it is
 * there already or not; who fits into the rest may start. So a younger one passes a waiting one only where it
 * takes nothing from it, and a big one gets its room however many small ones come.
 *
 * @param askers all who ask, in any order
 * @returns by key
 */
export function verdictsFor(askers: readonly Asker[], room: Room): ReadonlyMap<string, Verdict> {
  const verdicts = new Map<string, Verdict>();
  let left = room;
  let ahead = 0;
  for (const asker of [...askers].sort(byAge)) {
    const lack = lackOf(asker.needs, left);
    const isBehind = lack !== undefined && lackOf(asker.needs, room) === undefined;
    verdicts.set(
      asker.key,
      lack === undefined ? { kind: "go" } : { kind: "wait", lack, ahead, isBehind },
    );
    if (lack !== undefined) ahead++;
    left = {
      memory: Math.max(0, left.memory - asker.needs.memory),
      disk: Math.max(0, left.disk - asker.needs.disk),
      cpus: Math.max(0, left.cpus - asker.needs.cpus),
      starts: Math.max(0, left.starts - 1),
    };
  }
  return verdicts;
}

function lackOf(needs: Resources, left: Room): keyof Room | undefined {
  const wanted: Room = { ...needs, starts: 1 };
  return kinds.find((kind) => wanted[kind] > left[kind]);
}

function byAge(a: Asker, b: Asker): number {
  return a.createdAt - b.createdAt || a.arrivedAt - b.arrivedAt || (a.key < b.key ? -1 : 1);
}
