import { poolKey } from "../selection/standby-spec.ts";
import type { StandbySpec } from "../state/cell.ts";

/** A number of identical standby cells. */
export interface WantedCells {
  readonly spec: StandbySpec;
  readonly count: number;
}

/** A standby cell that is not being ended. */
export interface PresentCell {
  readonly uid: string;
  readonly spec: StandbySpec;
  /** RFC 3339. */
  readonly createdAt: string;
  /** Whether a pod is claiming it, in which case it is not ended. */
  readonly isReserved: boolean;
}

/** The changes from the present cells to the wanted ones. */
export interface PoolPlan {
  /** UIDs of the cells to end, the oldest first. */
  readonly end: readonly string[];
  /** The cells to create. */
  readonly create: readonly StandbySpec[];
}

/** Plans for all pools. Identical pools count together. If there are too many cells, the oldest are ended. Pure. */
export function planPools(
  wanted: readonly WantedCells[],
  present: readonly PresentCell[],
): PoolPlan {
  const counts = new Map<string, WantedCells>();
  for (const { spec, count } of wanted) {
    const key = poolKey(spec);
    counts.set(key, { spec, count: count + (counts.get(key)?.count ?? 0) });
  }
  const left = new Map([...counts].map(([key, { count }]) => [key, count]));
  const end: string[] = [];
  // The newest cells are kept, and those that a pod is claiming.
  const byWorth = [...present].sort(
    (a, b) => Number(b.isReserved) - Number(a.isReserved) || byAge(b, a),
  );
  for (const { uid, spec, isReserved } of byWorth) {
    const key = poolKey(spec);
    const room = left.get(key) ?? 0;
    if (room > 0) left.set(key, room - 1);
    else if (!isReserved) end.unshift(uid);
  }
  const create = [...counts].flatMap(([key, { spec }]) =>
    Array.from({ length: left.get(key) ?? 0 }, () => spec),
  );
  return { end, create };
}

function byAge(a: PresentCell, b: PresentCell): number {
  return a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.uid < b.uid ? -1 : 1;
}
