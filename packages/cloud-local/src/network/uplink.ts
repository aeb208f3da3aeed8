import { spawn } from "node:child_process";
import { once } from "node:events";
import { CloudError } from "@kip/cloud";
import { missingPrograms } from "../host/programs.ts";
import { endProcesses, findProcesses } from "../host/processes.ts";
import type { AddressPlan } from "./address-plan.ts";
import { uplinkDevice } from "./device-names.ts";
import type { Namespace } from "./namespace.ts";

const program = "slirp4netns";

/** Whether the program that leads out of the namespace is installed. */
export async function hasUplinkProgram(): Promise<boolean> {
  return (await missingPrograms([program])).length === 0;
}

/**
 * Starts the one process that carries the machines' traffic out: slirp4netns reads packets from a
 * device inside the namespace and opens ordinary sockets on the host, so the host needs no forwarding
 * and no rule. It keeps running when kip ends. The host's loopback cannot be reached through it.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if it does not come up
 */
export async function startUplink(namespace: Namespace, plan: AddressPlan): Promise<void> {
  const child = spawn(
    program,
    [
      "--netns-type=path",
      "--configure",
      "--mtu=1500",
      "--disable-host-loopback",
      "--enable-sandbox",
      "--enable-seccomp",
      `--cidr=${plan.uplink}`,
      "--ready-fd=3",
      namespace.file,
      uplinkDevice,
    ],
    { detached: true, stdio: ["ignore", "ignore", "ignore", "pipe"], cwd: "/" },
  );
  const ready = child.stdio[3];
  if (!ready) throw new TypeError("slirp4netns was started without its ready pipe");
  const ended = Promise.race([once(child, "exit"), once(child, "error")]).then(
    () => false,
    () => false,
  );
  const isReady = await Promise.race([once(ready, "data").then(() => true), ended]);
  ready.destroy();
  child.unref();
  if (!isReady) {
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot connect machines to the internet: ${program} ended`,
      {
        remedy: `Run "${program} --version" to see why, or turn the local cloud's internet off`,
      },
    );
  }
}

/** Whether the uplink of the namespace runs. */
export async function isUplinkRunning(namespace: Namespace): Promise<boolean> {
  return (await findProcesses(namespace.file)).length > 0;
}

/** Ends the uplink of the namespace. */
export async function stopUplink(namespace: Namespace): Promise<void> {
  await endProcesses(namespace.file, 2000);
}
