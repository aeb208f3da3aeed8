import { paths, type ApiClient } from "@kip/k8s-client";
import { isStandby, type Cell, type StandbyCell } from "@kip/kip/cell";

/** A Cell with or without a pod, as the API has stored it. */
export type AnyCell = PodCell | Stored<StandbyCell>;
/** The Cell of a pod. */
export type PodCell = Stored<Cell>;
type Stored<T extends { readonly metadata: object }> = T & {
  readonly metadata: T["metadata"] & { readonly resourceVersion: string };
};

/** Which cells are asked for. */
export interface CellQuery {
  /** Of the pod; undefined: of all namespaces, and those that stand by too. */
  readonly namespace?: string | undefined;
  readonly selector?: string | undefined;
  readonly signal: AbortSignal;
}

/** Cells, by the namespace and name of their pods; those without a pod come last. */
export async function listCells(client: ApiClient, query: CellQuery): Promise<readonly AnyCell[]> {
  const { namespace, selector, signal } = query;
  const { items } = await client.list<AnyCell>(paths.cells(), {
    query: { labelSelector: selector },
    signal,
  });
  return sortCells(
    items.filter((cell) => namespace === undefined || podOf(cell)?.namespace === namespace),
  );
}

/** By the namespace and name of their pods; those without a pod come last. */
export function sortCells(cells: readonly AnyCell[]): readonly AnyCell[] {
  return [...cells].sort((a, b) => compare(sortKey(a), sortKey(b)));
}

/** The pod of a cell; undefined for one that stands by. */
export function podOf(cell: AnyCell): Cell["spec"]["podRef"] | undefined {
  return isStandby(cell) ? undefined : cell.spec.podRef;
}

/** The newest cell of each pod, by the pod's UID. */
export function cellsByPod(cells: readonly AnyCell[]): ReadonlyMap<string, PodCell> {
  const newest = new Map<string, PodCell>();
  for (const cell of cells) {
    if (isStandby(cell)) continue;
    const { podRef, attempt } = cell.spec;
    if (attempt >= (newest.get(podRef.uid)?.spec.attempt ?? 0)) newest.set(podRef.uid, cell);
  }
  return newest;
}

/** "~" is after all letters of names. */
function sortKey(cell: AnyCell): string {
  const pod = podOf(cell);
  return pod ? `${pod.namespace}/${pod.name}/${cell.metadata.name}` : `~/${cell.metadata.name}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
