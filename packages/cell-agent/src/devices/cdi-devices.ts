import { readFile } from "node:fs/promises";
import path from "node:path";
import { namesIn, type Logger } from "@kip/base";
import { parseCdiFile, type ContainerEdits } from "./cdi-file.ts";

/** Folders of specifications. Devices in a later folder replace those of the same name in earlier ones. */
export const cdiFolders = ["/etc/cdi", "/var/run/cdi"] as const;

/** A device of this machine. */
export interface CdiDevice {
  readonly name: string;
  /** The name that is unique to it for as long as it exists. After a change, another device may get its index. */
  readonly id: string;
  /** Changes to a container that uses it: the device's own, and those for all devices in its file. */
  readonly edits: readonly ContainerEdits[];
}

/** The devices of this machine by kind, such as `nvidia.com/gpu`. Each list is in the order of assignment. */
export type CdiDevices = ReadonlyMap<string, readonly CdiDevice[]>;

/** The devices found, by name. Undefined for a name that two files of a folder have. */
type Found = Map<string, Omit<CdiDevice, "id"> | undefined>;

/**
 * Reads the machine's devices. Skips a file that cannot be read, so a pod that requests its devices cannot run. Names that
 * stand for several devices (`all`), and further names of the same device, do not count.
 */
export async function readCdiDevices(
  logger: Pick<Logger, "warn">,
  folders: readonly string[] = cdiFolders,
): Promise<CdiDevices> {
  const kinds = new Map<string, Found>();
  for (const folder of folders) {
    for (const [kind, found] of await readFolder(folder, logger))
      kinds.set(kind, new Map([...(kinds.get(kind) ?? []), ...found]));
  }
  return new Map([...kinds].map(([kind, found]) => [kind, distinct(found)]));
}

async function readFolder(
  folder: string,
  logger: Pick<Logger, "warn">,
): Promise<ReadonlyMap<string, Found>> {
  const kinds = new Map<string, Found>();
  for (const name of (await namesIn(folder))
    .toSorted()
    .filter((each) => /\.(json|yaml)$/.test(each))) {
    const file = path.join(folder, name);
    try {
      const { kind, devices, containerEdits } = parseCdiFile(
        await readFile(file, "utf8"),
        name.endsWith(".yaml"),
      );
      const found: Found = kinds.get(kind) ?? new Map();
      for (const device of devices) {
        const edits = [device.containerEdits, ...(containerEdits ? [containerEdits] : [])];
        const isTwice = found.has(device.name);
        if (isTwice) logger.warn("Two files describe the same device", { file });
        found.set(device.name, isTwice ? undefined : { name: device.name, edits });
      }
      kinds.set(kind, found);
    } catch (error) {
      logger.warn("Could not read a description of devices", { file, err: error });
    }
  }
  return kinds;
}

function distinct(found: Found): readonly CdiDevice[] {
  const devices = [...found.values()].flatMap((device) => device ?? []).toSorted(byName);
  const named = devices.filter(({ name }) => name !== "all");
  // Files often list each device by index and by UUID.
  const byContent = Map.groupBy(named, ({ edits }) => JSON.stringify(edits));
  return [...byContent.values()].flatMap(([device, ...others]) => {
    if (!device) return [];
    const own = [device, ...others].find(({ name }) => !/^[\d:]+$/.test(name));
    return { ...device, id: (own ?? device).name };
  });
}

/** Sorts numbers by value, before names that begin with a letter. */
function byName(a: Pick<CdiDevice, "name">, b: Pick<CdiDevice, "name">): number {
  return a.name.localeCompare(b.name, "en", { numeric: true });
}
