import type { Pod } from "@kip/k8s-types";
import { startPhases } from "@kip/kip/cell";
import { cellsByPod, podOf, type AnyCell } from "../cluster/list-cells.ts";
import { costOf, sumCosts } from "../cost/sum-costs.ts";
import { phaseOf, typeText, waitOf } from "../get/cell-columns.ts";
import { waitsFor } from "../explain/waits-for.ts";

/** The state that the page shows. Amounts in US dollars, times in RFC 3339. */
export interface WebState {
  readonly time: string;
  /** Why the rest may be outdated: the API server cannot be reached. */
  readonly problem?: string | undefined;
  readonly nodes: readonly string[];
  readonly cost: {
    readonly perHour: number;
    /** If all current cells ran for a whole month. */
    readonly perMonth: number;
    /** Cost of the existing cells since the start of the month, UTC. */
    readonly thisMonth: number;
  };
  readonly cells: readonly WebCell[];
  readonly waits: readonly WebWait[];
}

/** A cell and its start. */
export interface WebCell {
  readonly name: string;
  /** Undefined for a standby cell. */
  readonly pod?: string | undefined;
  readonly type: string;
  readonly node: string;
  readonly zone?: string | undefined;
  readonly phase: string;
  readonly ip?: string | undefined;
  readonly perHour: number;
  readonly since?: string | undefined;
  readonly startedFrom?: string | undefined;
  /** In order. Times are milliseconds since the pod was bound. */
  readonly start: readonly { readonly phase: string; readonly atMs: number; readonly ms: number }[];
}

/** A pod, or a cell without one, that is waiting. */
export interface WebWait {
  readonly name: string;
  readonly since?: string | undefined;
  readonly why: string;
}

/** Input of {@link webState}. */
export interface WebFacts {
  readonly cells: readonly AnyCell[];
  /** The pods that are bound to kip's nodes. */
  readonly pods: readonly Pod[];
  readonly nodes: readonly string[];
  /** Why the last list or watch failed. Undefined if it worked. */
  readonly problem?: string | undefined;
}

/** The state of the page for these cells and pods. */
export function webState({ cells, pods, nodes, problem }: WebFacts, now: number): WebState {
  const { perHour, perMonth } = sumCosts(cells.map((cell) => costOf(cell, now)));
  const began = new Date(now);
  const monthMs = Date.UTC(began.getUTCFullYear(), began.getUTCMonth());
  const ofMonth = cells.map((cell) => {
    const since = Date.parse(cell.metadata.creationTimestamp ?? "");
    const hours = (now - Math.max(monthMs, Number.isNaN(since) ? now : since)) / 3_600_000;
    return (cell.spec.pricePerHour ?? 0) * Math.max(0, hours);
  });
  return {
    time: new Date(now).toISOString(),
    problem,
    nodes,
    cost: { perHour, perMonth, thisMonth: ofMonth.reduce((sum, each) => sum + each, 0) },
    cells: cells.map(webCell),
    waits: [...podWaits(pods, cells), ...standbyWaits(cells)],
  };
}

function webCell(cell: AnyCell): WebCell {
  const { metadata, spec, status } = cell;
  const pod = podOf(cell);
  let atMs = 0;
  const start = startPhases.flatMap((phase) => {
    const ms = status?.startMs?.[phase];
    if (ms === undefined) return [];
    atMs += ms;
    return { phase, atMs: atMs - ms, ms };
  });
  return {
    name: metadata.name,
    pod: pod && `${pod.namespace}/${pod.name}`,
    type: typeText(cell),
    node: spec.nodeName,
    zone: spec.zone,
    phase: phaseOf(cell),
    ip: status?.ip,
    perHour: spec.pricePerHour ?? 0,
    since: metadata.creationTimestamp,
    startedFrom: status?.startedFrom,
    start,
  };
}

function podWaits(pods: readonly Pod[], cells: readonly AnyCell[]): readonly WebWait[] {
  const byPod = cellsByPod(cells);
  return pods.flatMap((pod) => {
    const why = waitsFor(pod, byPod.get(pod.metadata.uid), true);
    const { namespace, name, creationTimestamp: since } = pod.metadata;
    return why === undefined ? [] : { name: `${namespace}/${name}`, since, why };
  });
}

function standbyWaits(cells: readonly AnyCell[]): readonly WebWait[] {
  return cells.flatMap((cell) => {
    const wait = podOf(cell) ? undefined : waitOf(cell);
    // A cell that is ready only waits for a pod, as intended.
    if (!wait || phaseOf(cell) === "Ready") return [];
    const { name, creationTimestamp: since } = cell.metadata;
    return { name, since, why: `${wait.message} (${wait.reason})` };
  });
}
