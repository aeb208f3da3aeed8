import { existsSync } from "node:fs";
import { runCommand } from "@kip/base";

/** What a cell finds disks with that are plugged in: as the kernel names modules, and as it asks for them. */
const drivers = ["virtio_scsi", "sd_mod"];

/**
 * Loads the drivers of disks that are plugged in. Nothing else does: cells have no udev, and what is loaded at the
 * start makes every pod wait.
 */
export async function loadDiskDrivers(): Promise<void> {
  const missing = drivers.filter((name) => !existsSync(`/sys/module/${name}`));
  if (missing.length === 0) return;
  // A machine whose disks come otherwise need not have them; whether the disk comes is seen afterwards.
  await runCommand("modprobe", ["-a", ...missing]).catch(() => {});
}
