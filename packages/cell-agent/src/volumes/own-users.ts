import fs from "node:fs";
import path from "node:path";
import type { DesiredPod } from "@kip/agent-api";
import type { AgentDirectories } from "../storage/agent-directories.ts";

/** Maps a pod's users and groups to those of the machine. */
export interface OwnUsers {
  /** The user and group ID on the machine that are 0 in the pod. */
  readonly firstId: number;
  readonly idCount: number;
}

/**
 * The ID range of a pod with its own user namespace: the same size as a kubelet assigns, and its first range. A machine has one
 * pod, so it needs no other range.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
 */
export function ownUsersOf({ hostUsers }: Pick<DesiredPod, "hostUsers">): OwnUsers | undefined {
  return hostUsers === false ? { firstId: 65_536, idCount: 65_536 } : undefined;
}

/**
 * Lets the pod's users pass through the folders above its containers' root file systems, without listing them. crun sets up a
 * container as root of the pod's users, who is an ordinary user on the machine.
 */
export function openToUsers({ containers }: Pick<AgentDirectories, "containers">): void {
  fs.mkdirSync(containers, { recursive: true });
  for (const folder of [containers, path.dirname(containers)]) fs.chmodSync(folder, 0o711);
}
