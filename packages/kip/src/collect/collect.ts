import { every, type EveryOptions } from "@kip/base";
import type { KubeObject } from "@kip/k8s-client";
import type { Cell } from "../state/cell.ts";
import { hostRelease } from "./empty-hosts.ts";
import { freeFinishedPods, type FinishedPodsOptions } from "./finished-pods.ts";
import { GoneNodes, type GoneNodesOptions } from "./gone-nodes.ts";
import type { OrphanInstances } from "./orphan-instances.ts";

/** How often to compare instances with Cells, milliseconds. Events report every change. This catches lost events. */
const intervalMs = 45_000;
/** How often to look for other nodes that are gone, milliseconds. */
const goneNodesIntervalMs = 300_000;

/** Options of {@link collect}. */
export interface CollectOptions extends Omit<GoneNodesOptions, "clusterID"> {
  /** @default `controllerID` */
  readonly clusterID?: string | undefined;
  readonly orphans: OrphanInstances;
  readonly provider: FinishedPodsOptions["provider"] & {
    /** Asks the cloud which cells are running, for those whose agents have not answered for long. @throws {CloudError} */
    askCloud(): Promise<void>;
  };
  /** The cells of this node that have a pod. */
  readonly cells: () => readonly Cell[];
  /** All Cells of this node, by a watch. */
  readonly knownCells: () => readonly Pick<KubeObject, "metadata">[];
  /** How often to ask the cloud about unreachable cells, milliseconds. Undefined: as often as for the rest. */
  readonly healthMs: () => number | undefined;
  readonly signal: AbortSignal;
}

/**
 * Compares Pods, Cells and instances at intervals, and ends what is not needed. Resolves when the signal has aborted. Never
 * throws.
 */
export async function collect(options: CollectOptions): Promise<void> {
  const { client, controllerID, clusterID = controllerID, provider, cells } = options;
  const { healthMs, clock, logger, signal } = options;
  const goneNodes = new GoneNodes({ ...options, clusterID });
  const common = { intervalMs, clock, logger, signal };
  await Promise.all([
    every(
      {
        ...common,
        intervalMs: () => healthMs() ?? intervalMs,
        what: "ask for cells out of reach",
      },
      async () => await provider.askCloud(),
    ),
    collectOrphans(options, common),
    releaseHosts(options, common),
    every({ ...common, what: "free the cells of finished pods" }, async () => {
      await freeFinishedPods({ client, cells: cells(), provider });
    }),
    every(
      {
        ...common,
        intervalMs: goneNodesIntervalMs,
        isImmediate: false,
        what: "look for nodes that are gone",
      },
      async (ending) => await goneNodes.look(ending),
    ),
  ]);
}

type Common = Omit<EveryOptions, "what" | "isImmediate">;

async function releaseHosts({ driver, logger }: CollectOptions, common: Common): Promise<void> {
  if (!driver.hosts) return;
  const what = "give back dedicated hosts without instances";
  await every({ ...common, what }, hostRelease(driver.hosts, logger));
}

async function collectOrphans(
  { orphans, knownCells }: CollectOptions,
  options: Common,
): Promise<void> {
  const what = "compare the instances with the Cells";
  await Promise.all([
    orphans.begin(options.signal),
    // Concurrently, so that an instance that does not end does not prevent finding others.
    every({ ...options, isImmediate: false, what }, async () => {
      const known = new Set(knownCells().map(({ metadata }) => metadata.uid));
      await orphans.collect((token) => known.has(token));
    }),
  ]);
}
