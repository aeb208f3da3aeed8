import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import { checkDiskRoom, diskSize } from "../volume/volume-room.ts";
import type { MachineRecord } from "../machine/machine-record.ts";
import { readRoom } from "./machine-reservation.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import { openCommands } from "../qemu/qmp-session.ts";

/**
 * Grows the root disk of a running machine to at least this size, bytes. The caller holds the machine's lock.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`, `CLOUD_NO_CAPACITY`
 */
export async function growRootDisk(
  { options, store }: { options: ResolvedLocalCloudOptions; store: MachineStore },
  record: MachineRecord,
  sizeBytes: number,
): Promise<void> {
  const size = Math.max(record.rootDiskBytes, diskSize("grow a root disk to", sizeBytes));
  if (size > record.rootDiskBytes) {
    await store.lockAll(async () => {
      const reserve = options.diskReserveBytes;
      const needed = Math.min(size, reserve) - Math.min(record.rootDiskBytes, reserve);
      checkDiskRoom("grow a root disk", needed, (await readRoom(options, store)).disk);
      // Updated first, so that the recorded size is never smaller than the disk. QEMU would otherwise truncate it.
      await store.update({ ...record, rootDiskBytes: size });
    });
  }
  using control = await openCommands(store.files(record.id).command);
  await control.execute("block_resize", { "node-name": "root", size });
}
