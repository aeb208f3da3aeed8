import { isNotFound, paths, type ApiClient } from "@kip/k8s-client";
import { isStandby, type Cell, type StandbyCell } from "@kip/kip/cell";
import { KipctlError } from "../errors.ts";

/** A Cell with or without a pod, as read from the API. */
export type AnyCell = PodCell | Stored<StandbyCell>;
/** The Cell of a pod. */
export type PodCell = Stored<Cell>;
type Stored<T extends { readonly metadata: object }> = T & {
  readonly metadata: T["metadata"] & { readonly resourceVersion: string };
};

/** Which cells to list. */
export interface CellQuery {
  /** Namespace of the pods. Undefined: all namespaces, and also standby cells. */
  readonly namespace?: string | undefined;
  readonly selector?: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Lists cells, sorted by the namespace and name of their pods. Cells without a pod come last.
 *
 * @throws {KipctlError} `NO_KIP_NODE` if the cluster has no Cell resource
 */
export async function listCells(client: ApiClient, query: CellQuery): Promise<readonly AnyCell[]> {
  const { namespace, selector, signal } = query;
  const options = { query: { labelSelector: selector }, signal };
  const { items } = await client
    .list<AnyCell>(paths.cells(), options)
    .catch((error: unknown) => Promise.reject(listError(error)));
  return sortCells(
    items.filter((cell) => namespace === undefined || podOf(cell)?.namespace === namespace),
  );
}

/** Explains a failed list. For an unknown resource, the API server only returns "not found". */
export function listError(error: unknown): unknown {
  if (!isNotFound(error)) return error;
  return new KipctlError("NO_KIP_NODE", "Cannot list cells: this cluster has no Cell resource", {
    cause: error,
    remedy: "Start kip there, or name the cluster that it runs in with --context or --kubeconfig",
  });
}

/** Sorts cells by the namespace and name of their pods. Cells without a pod come last. */
export function sortCells(cells: readonly AnyCell[]): readonly AnyCell[] {
  return [...cells].sort((a, b) => compare(sortKey(a), sortKey(b)));
}

/** The pod of a cell. Undefined for a standby cell. */
export function podOf(cell: AnyCell): Cell["spec"]["podRef"] | undefined {
  return isStandby(cell) ? undefined : cell.spec.podRef;
}

/** The newest cell of each pod, by pod UID. */
export function cellsByPod(cells: readonly AnyCell[]): ReadonlyMap<string, PodCell> {
  const newest = new Map<string, PodCell>();
  for (const cell of cells) {
    if (isStandby(cell)) continue;
    const { podRef, attempt } = cell.spec;
    if (attempt >= (newest.get(podRef.uid)?.spec.attempt ?? 0)) newest.set(podRef.uid, cell);
  }
  return newest;
}

/** "~" sorts after all characters of names. */
function sortKey(cell: AnyCell): string {
  const pod = podOf(cell);
  return pod ? `${pod.namespace}/${pod.name}/${cell.metadata.name}` : `~/${cell.metadata.name}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
