import { decode } from "@kip/base";
import type { Instance } from "@kip/cloud";

/**
 * State of a machine in its record, `machine.json` in its folder. The record is written before any other part of the machine
 * exists.
 *
 * starting: reserved, perhaps not running yet · running: QEMU has answered · stopping: being removed · ended: has ended by
 * itself; its console is kept for a while, and everything else is freed.
 */
export type MachineState = "starting" | "running" | "stopping" | "ended";

const recordDocument = decode.object({
  id: decode.string,
  token: decode.string,
  name: decode.string,
  owner: decode.string,
  instanceType: decode.string,
  launchType: decode.oneOf("on-demand", "spot", "dedicated"),
  image: decode.string,
  cpus: decode.integer,
  /** Memory of the machine, including its overhead. */
  memoryBytes: decode.integer,
  rootDiskBytes: decode.integer,
  /** Position in the address plan. */
  slot: decode.integer,
  /** User ID of its QEMU. */
  userId: decode.optional(decode.integer),
  /** Absolute path of its QEMU's control group. Absent without control groups. */
  controlGroup: decode.optional(decode.string),
  managementIp: decode.string,
  podIp: decode.string,
  /** Present if the network has IPv6. */
  ipv6: decode.optional(
    decode.object({
      managementIp: decode.string,
      podIp: decode.string,
      gateway: decode.object({ address: decode.string, mac: decode.string }),
    }),
  ),
  launchedAt: decode.string,
  tags: decode.map(decode.string),
  state: decode.oneOf("starting", "running", "stopping", "ended"),
  stateReason: decode.optional(decode.string),
  /** How it started, once it is running. */
  startedFrom: decode.optional(decode.oneOf("boot", "template", "image-template")),
  /** Key of the template below its disk. */
  template: decode.optional(decode.string),
  /** Milliseconds since the epoch. */
  endedAt: decode.optional(decode.integer),
});

/** @see recordDocument */
export type MachineRecord = decode.Decoded<typeof recordDocument>;

/** Parses a `machine.json`. */
export function parseMachineRecord(text: string, file: string): MachineRecord {
  return recordDocument(JSON.parse(text), file);
}

const instanceStates = {
  starting: "pending",
  running: "running",
  stopping: "stopping",
  ended: "terminated",
} as const satisfies Record<MachineState, Instance["state"]>;

/** The machine in the form of the port. */
export function toInstance(record: MachineRecord): Instance {
  const { id, token, name, owner, instanceType, launchType, launchedAt, tags } = record;
  return {
    id,
    token,
    name,
    owner,
    instanceType,
    launchType,
    launchedAt,
    tags,
    state: instanceStates[record.state],
    managementIp: record.managementIp,
    podIp: record.podIp,
    ipv6: record.ipv6,
    startedFrom: record.startedFrom,
    stateReason: record.stateReason,
  };
}

/** Name of a machine's control group. */
export function machineGroupName(
  { namespace }: { readonly namespace: string },
  id: string,
): string {
  return `kip-${namespace}-${id}`;
}
