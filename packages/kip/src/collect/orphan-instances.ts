import type { Logger } from "@kip/base";
import type { CloudDriver, Instance } from "@kip/cloud";
import { clusterTag } from "../state/cell.ts";
import type { CellStore } from "../store/cell-store.ts";

/** Options of {@link OrphanInstances}. */
export interface OrphanInstancesOptions {
  readonly driver: CloudDriver;
  readonly store: Pick<CellStore, "list">;
  /** ID of the cluster whose Cells the store has. */
  readonly clusterID: string;
  readonly logger: Logger;
}

/**
 * Terminates instances of this installation that have no Cell.
 *
 * A Cell is written before its instance is asked for, so an instance that was listed *before* the
 * Cells were read and has none among them is an orphan. Instances belong to the installation, so the
 * Cells of all its virtual nodes count. Instances whose tag names another cluster are left alone: two clusters have been given
 * one `testing.controllerID` then, and the Cells of the other one are not known here.
 */
export class OrphanInstances {
  readonly #options: OrphanInstancesOptions;
  readonly #reported = new Set<string>();

  constructor(options: OrphanInstancesOptions) {
    this.#options = options;
  }

  /** @returns how many were found */
  async collect(): Promise<number> {
    const { driver, store, logger } = this.#options;
    const instances = (await driver.list()).filter((each) => this.#isOwn(each));
    if (instances.length === 0) return 0;
    const tokens = new Set((await store.list()).map((cell) => cell.metadata.uid));
    const orphans = instances.filter((instance) => !tokens.has(instance.token));
    for (const { id, name } of orphans) {
      try {
        await driver.terminate(id);
        logger.warn("Terminated an instance without a Cell", { instance: id, cell: name });
      } catch (error) {
        logger.warn("Could not terminate an instance without a Cell", { instance: id, err: error });
      }
    }
    return orphans.length;
  }

  #isOwn(instance: Instance): boolean {
    const { clusterID, logger } = this.#options;
    if (isOfCluster(instance, clusterID)) return true;
    const { id, tags } = instance;
    const { [clusterTag]: cluster = "" } = tags;
    if (!this.#reported.has(cluster))
      logger.error(
        "Left the instances of another cluster alone: it has this testing.controllerID",
        {
          cluster,
          instance: id,
          remedy: "Leave testing.controllerID out, or give each cluster one of its own",
        },
      );
    this.#reported.add(cluster);
    return false;
  }
}

/** Whether kip launched an instance in this cluster. One of an earlier version of kip names no cluster. */
export function isOfCluster({ tags }: Pick<Instance, "tags">, clusterID: string): boolean {
  return (tags[clusterTag] ?? clusterID) === clusterID;
}
