import type { CloudDriver } from "@kip/cloud";

/** Bytes of a console that are shown at most. */
const maxBytes = 2 ** 20;

/** What {@link readCellConsole} needs to know of a Cell. */
interface CellWithInstance {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly status?: { readonly instanceID?: string } | undefined;
}

/**
 * The end of the serial console of a cell's instance, for the path `cells/NAME/console` of the node's logs, at most 1 MiB. The
 * agent of the cell writes its log there, and what containers print is not in it.
 *
 * @returns undefined if there is no such path, no such cell of this node, or no instance yet
 * @throws {CloudError}
 */
export async function readCellConsole(
  path: string,
  {
    cells,
    driver,
  }: {
    readonly cells: readonly CellWithInstance[];
    readonly driver: Pick<CloudDriver, "consoleOutput" | "list">;
  },
): Promise<string | undefined> {
  const [folder, name, file, ...more] = path.split("/");
  if (folder !== "cells" || file !== "console" || more.length > 0) return undefined;
  const cell = cells.find(({ metadata }) => metadata.name === name);
  const id = cell && (cell.status?.instanceID ?? (await newInstance(cell, driver)));
  return id === undefined ? undefined : await driver.consoleOutput(id, maxBytes);
}

/** The ID of an instance that was started a moment ago: the Cell's status does not have it yet. */
async function newInstance(
  { metadata: { uid } }: CellWithInstance,
  driver: Pick<CloudDriver, "list">,
): Promise<string | undefined> {
  return (await driver.list()).find(({ token }) => token === uid)?.id;
}
