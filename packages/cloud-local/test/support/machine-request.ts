import { randomUUID } from "node:crypto";
import type { LaunchRequest } from "@kip/cloud";

/** A request for the smallest machine with the image `idle`. */
export function machineRequest(changes: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    token: randomUUID(),
    name: "machine",
    instanceType: "local.nano",
    launchType: "on-demand",
    image: "idle",
    rootDiskBytes: 0,
    userData: Buffer.from("#cloud-config\n{}"),
    privateIpOnly: true,
    tags: {},
    ...changes,
  };
}
