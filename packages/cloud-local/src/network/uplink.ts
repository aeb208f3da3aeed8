import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, identifyProcess, readJsonRecord, untilAborted } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { missingPrograms } from "../host/programs.ts";
import { controlGroupPath, confined, makeControlGroup } from "../host/control-group.ts";
import { endProcessGroup, findProcesses, type ProcessGroup } from "../host/processes.ts";
import type { AddressPlan } from "./address-plan.ts";
import { uplinkDevice } from "./device-names.ts";
import type { Namespace } from "./namespace.ts";

const program = "slirp4netns";

const recordDocument = decode.object({
  controlGroup: decode.optional(decode.string),
  process: decode.optional(decode.object({ pid: decode.integer, since: decode.string })),
});

/** Identifies the process, in addition to its argument. It reads packets from machines, so it might be broken into. */
type UplinkRecord = decode.Decoded<typeof recordDocument>;

/** Whether the uplink program is installed. */
export async function hasUplinkProgram(): Promise<boolean> {
  return (await missingPrograms([program])).length === 0;
}

/**
 * Starts the process that carries the machines' traffic to the outside. slirp4netns reads packets from a device inside the
 * namespace and opens ordinary sockets on the host, so the host needs no forwarding and no rule. It keeps running when kip
 * ends. The host's loopback cannot be reached through it.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if it does not start
 */
export async function startUplink(namespace: Namespace, plan: AddressPlan): Promise<void> {
  const network = path.basename(path.dirname(namespace.file));
  const controlGroup = await controlGroupPath(`kip-${network}-uplink`);
  await writeRecord(namespace, { controlGroup });
  const isMade = controlGroup !== undefined && (await makeControlGroup(controlGroup));
  const child = spawnUplink(isMade ? controlGroup : undefined, namespace, plan);
  const ready = untilReady(child);
  const identity = child.pid === undefined ? undefined : identifyProcess(child.pid);
  if (identity) {
    const { pid, startTicks: since } = identity;
    await writeRecord(namespace, { controlGroup, process: { pid, since } });
  }
  const isReady = await ready;
  child.unref();
  if (isReady) return;
  throw new CloudError(
    "CLOUD_UNAVAILABLE",
    `Cannot connect machines to the internet: ${program} ended`,
    { remedy: `Run "${program} --version" to see why, or turn the local cloud's internet off` },
  );
}

function spawnUplink(
  controlGroup: string | undefined,
  namespace: Namespace,
  plan: AddressPlan,
): ChildProcess {
  const [first, ...others] = [...confined(controlGroup), program];
  return spawn(
    first,
    [
      ...others,
      "--netns-type=path",
      "--configure",
      "--mtu=1500",
      "--disable-host-loopback",
      "--enable-sandbox",
      "--enable-seccomp",
      `--cidr=${plan.uplink}`,
      ...(plan.ipv6 ? ["--enable-ipv6"] : []),
      "--ready-fd=3",
      namespace.file,
      uplinkDevice,
    ],
    { detached: true, stdio: ["ignore", "ignore", "ignore", "pipe"], cwd: "/" },
  );
}

/** Resolves with true when the program reports that it is ready, and with false if it ends first. */
async function untilReady(child: ChildProcess): Promise<boolean> {
  const ready = child.stdio[3];
  if (!ready) throw new TypeError("slirp4netns was started without its ready pipe");
  const ended = new AbortController();
  child.once("exit", () => ended.abort());
  child.once("error", () => ended.abort());
  const isReady = await untilAborted(once(ready, "data"), ended.signal).then(
    () => true,
    () => false,
  );
  ready.destroy();
  return isReady;
}

/** Whether the namespace's uplink is running. */
export async function isUplinkRunning(namespace: Namespace): Promise<boolean> {
  return (await findProcesses(await uplinkProcesses(namespace))).length > 0;
}

/** Ends the namespace's uplink. */
export async function stopUplink(namespace: Namespace): Promise<void> {
  await endProcessGroup(await uplinkProcesses(namespace), 2000);
}

async function uplinkProcesses(namespace: Namespace): Promise<ProcessGroup> {
  const file = recordFile(namespace);
  // If there is no record, its writer may have been killed, but the process can still be found by its argument.
  const known = await readJsonRecord(file, recordDocument);
  return {
    argument: namespace.file,
    controlGroup: known?.controlGroup,
    process: known?.process && { pid: known.process.pid, startTicks: known.process.since },
  };
}

async function writeRecord(namespace: Namespace, record: UplinkRecord): Promise<void> {
  const file = recordFile(namespace);
  await writeFile(`${file}.new`, JSON.stringify(record), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

function recordFile(namespace: Namespace): string {
  return path.join(path.dirname(namespace.file), "uplink.json");
}
