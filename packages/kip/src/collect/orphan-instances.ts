import type { Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { CellStore } from "../store/cell-store.ts";

/** Options of {@link collectOrphanInstances}. */
export interface CollectOptions {
  readonly driver: CloudDriver;
  readonly store: Pick<CellStore, "list">;
  readonly logger: Logger;
}

/**
 * Terminates instances of this installation that have no Cell.
 *
 * A Cell is written before its instance is asked for, so an instance that was listed *before* the
 * Cells were read and has none among them is an orphan. Instances belong to the installation, so the
 * Cells of all its virtual nodes count.
 */
export async function collectOrphanInstances(options: CollectOptions): Promise<number> {
  const { driver, store, logger } = options;
  const instances = await driver.list();
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
