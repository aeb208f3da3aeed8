import { CloudError, wrapOperations, type CloudDriver, type CloudOperation } from "@kip/cloud";
import type { LeaderTerm } from "@kip/k8s-client";

/** What changes something in the cloud. */
const changes: readonly CloudOperation[] = [
  "launch",
  "terminate",
  "growRootDisk",
  "createVolume",
  "deleteVolume",
  "attachVolume",
  "detachVolume",
];

/** A driver that changes nothing in the cloud once another process may lead: it fails with `CLOUD_UNAVAILABLE` then. */
export function fencedDriver(driver: CloudDriver, term: Pick<LeaderTerm, "isHeld">): CloudDriver {
  return wrapOperations(driver, changes, async (operation, call, args) => {
    if (term.isHeld()) return await call(...args);
    const message = `Cannot ask the cloud (${operation}): another kip may run this node now`;
    throw new CloudError("CLOUD_UNAVAILABLE", message);
  });
}
