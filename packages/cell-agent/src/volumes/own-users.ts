import fs from "node:fs";
import path from "node:path";
import type { DesiredPod } from "@kip/agent-api";
import type { AgentDirectories } from "../storage/agent-directories.ts";

/** Which users and groups of the machine those of a pod are. */
export interface OwnUsers {
  /** The user and the group that 0 is. */
  readonly firstId: number;
  readonly idCount: number;
}

/**
 * The users of a pod that does not want the machine's: as many as a kubelet gives each of its pods, and the first range that
 * it gives. A machine has one pod, so there is no need for another range.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
 */
export function ownUsersOf({ hostUsers }: Pick<DesiredPod, "hostUsers">): OwnUsers | undefined {
  return hostUsers === false ? { firstId: 65_536, idCount: 65_536 } : undefined;
}

/**
 * Lets a user of the pod's through the folders above its containers' root file systems, without a look at what is in them:
 * crun sets up a container as root of the pod's users, who is any user on the machine.
 */
export function openToUsers({ containers }: Pick<AgentDirectories, "containers">): void {
  fs.mkdirSync(containers, { recursive: true });
  for (const folder of [containers, path.dirname(containers)]) fs.chmodSync(folder, 0o711);
}
