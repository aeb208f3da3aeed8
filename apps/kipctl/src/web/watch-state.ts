import { silentLogger, systemClock } from "@kip/base";
import { createInformer, paths, type ApiClient, type KubeObject } from "@kip/k8s-client";
import type { Node, Pod } from "@kip/k8s-types";
import { cloudLabel } from "../cluster/kip-nodes.ts";
import { listError, sortCells, type AnyCell } from "../cluster/list-cells.ts";
import type { WebFacts } from "./web-state.ts";

/** The current cells, pods and nodes. */
export interface WatchedState {
  /**
   * Resolves when everything has been listed once. Rejects with the error of the first list that fails, such as
   * `K8S_FORBIDDEN`.
   */
  readonly synced: Promise<void>;
  facts(): WebFacts;
}

/**
 * Follows kip's nodes, their pods, and the cells.
 *
 * @param onChange called for each change, and if the API server cannot be reached
 */
export function watchState(
  client: ApiClient,
  { signal, onChange }: { readonly signal: AbortSignal; readonly onChange: () => void },
): WatchedState {
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {}); // only `synced` passes the error on
  const onError = (error: Error): void => {
    failed.reject(listError(error));
    onChange();
  };
  const shared = { client, clock: systemClock, logger: silentLogger, signal };
  const watch = { ...shared, onEvent: onChange, onError };
  const cells = createInformer<AnyCell>({ ...watch, path: paths.cells() });
  const nodes = createInformer<Node & KubeObject>({
    ...watch,
    path: paths.nodes(),
    query: { labelSelector: cloudLabel },
  });
  const pods = createInformer<Pod>({
    ...watch,
    path: paths.pods(),
    // Pods of other nodes are filtered out below, because kip may register more nodes later.
    query: { fieldSelector: "spec.nodeName!=" },
  });
  const informers = [cells, nodes, pods];
  const listed = Promise.all(informers.map(async ({ synced }) => await synced));
  return {
    synced: Promise.race([failed.promise, listed.then(() => {})]),
    facts: () => {
      const names = nodes.list().map(({ metadata }) => metadata.name);
      const isOnKip = new Set(names);
      return {
        cells: sortCells(cells.list()),
        nodes: names.sort(),
        problem: informers.find(({ error }) => error)?.error?.message,
        pods: pods.list().filter(({ spec }) => isOnKip.has(spec.nodeName ?? "")),
      };
    },
  };
}
