import type { CloudDriver } from "@kip/cloud";

/** Maximum size of the shown part of a console, bytes. */
const maxBytes = 2 ** 20;

/** The fields of a Cell that {@link readCellConsole} needs. */
interface CellWithInstance {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly status?: { readonly instanceID?: string } | undefined;
}

/**
 * The end of the serial console of a cell's instance, at most 1 MiB, for the path `cells/NAME/console` of the node's logs. The
 * cell's agent writes its log there. Output of containers is not included.
 *
 * @returns undefined if the path, the cell of this node or its instance does not exist
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

/** The ID of an instance that was just started, which the Cell's status does not have yet. */
async function newInstance(
  { metadata: { uid } }: CellWithInstance,
  driver: Pick<CloudDriver, "list">,
): Promise<string | undefined> {
  return (await driver.list()).find(({ token }) => token === uid)?.id;
}
