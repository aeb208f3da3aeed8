/** Resources of one machine. Bytes and whole CPUs. */
export interface Resources {
  readonly memory: number;
  readonly disk: number;
  readonly cpus: number;
}

/** Resources that are left for more machines. */
export interface Room extends Resources {
  /** How many more machines may be starting. */
  readonly starts: number;
}

/** A launch that requests a machine. */
export interface PendingLaunch {
  readonly key: string;
  /** When it was requested, milliseconds since the epoch. */
  readonly createdAt: number;
  /** When it arrived here, which decides between requests of the same time. */
  readonly arrivedAt: number;
  readonly needs: Resources;
}

/** Whether a launch may start, and if not, why it has to wait. */
export type Verdict =
  | { readonly kind: "go" }
  | {
      readonly kind: "wait";
      readonly lack: keyof Room;
      /** Number of older requests that are also waiting. */
      readonly ahead: number;
      /** Whether there would be enough without the older requests. */
      readonly isBehind: boolean;
    };

/** The verdict on a launch that may not start yet. */
export type Wait = Extract<Verdict, { kind: "wait" }>;

const kinds = ["memory", "disk", "cpus", "starts"] as const;

/**
 * The verdict on one launch.
 *
 * @param launches all launches, in any order; `key` is that of one of them
 * @see verdictsFor
 */
export function verdictFor(key: string, launches: readonly PendingLaunch[], room: Room): Verdict {
  const verdict = verdictsFor(launches, room).get(key);
  if (!verdict) throw new TypeError(`"${key}" is not among the launches`);
  return verdict;
}

/**
 * Decides which launches may start, the oldest first. Resources for all older requests are set aside, even if they are not
 * available yet. A launch that fits into the rest may start. So a younger launch only overtakes a waiting one if it takes
 * nothing from it, and a large machine gets its resources however many small ones arrive.
 *
 * @param launches all launches, in any order
 * @returns the verdicts by key
 */
export function verdictsFor(
  launches: readonly PendingLaunch[],
  room: Room,
): ReadonlyMap<string, Verdict> {
  const verdicts = new Map<string, Verdict>();
  let left = room;
  let ahead = 0;
  for (const launch of [...launches].sort(byAge)) {
    const lack = lackOf(launch.needs, left);
    const isBehind = lack !== undefined && lackOf(launch.needs, room) === undefined;
    verdicts.set(
      launch.key,
      lack === undefined ? { kind: "go" } : { kind: "wait", lack, ahead, isBehind },
    );
    if (lack !== undefined) ahead++;
    left = {
      memory: Math.max(0, left.memory - launch.needs.memory),
      disk: Math.max(0, left.disk - launch.needs.disk),
      cpus: Math.max(0, left.cpus - launch.needs.cpus),
      starts: Math.max(0, left.starts - 1),
    };
  }
  return verdicts;
}

function lackOf(needs: Resources, left: Room): keyof Room | undefined {
  const wanted: Room = { ...needs, starts: 1 };
  return kinds.find((kind) => wanted[kind] > left[kind]);
}

function byAge(a: PendingLaunch, b: PendingLaunch): number {
  return a.createdAt - b.createdAt || a.arrivedAt - b.arrivedAt || (a.key < b.key ? -1 : 1);
}
