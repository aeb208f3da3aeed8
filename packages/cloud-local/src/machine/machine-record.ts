import { decode } from "@kip/base";
import type { Instance } from "@kip/cloud";

/**
 * What is known of a machine: `machine.json` in its folder, written before anything else of it exists.
 *
 * starting: reserved, perhaps not running yet · running: QEMU has answered · stopping: being removed ·
 * ended: has ended by itself; its console is kept for a while, all else is freed.
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
  /** Of the machine, its overhead included. */
  memoryBytes: decode.integer,
  rootDiskBytes: decode.integer,
  /** Place in the address plan. */
  slot: decode.integer,
  /** The user that its QEMU runs as. */
  userId: decode.optional(decode.integer),
  /** Absolute path of the control group of its QEMU; none where there are no control groups. */
  controlGroup: decode.optional(decode.string),
  managementIp: decode.string,
  podIp: decode.string,
  /** Where the network has it. */
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
  /** How it came up, once it runs. */
  startedFrom: decode.optional(decode.oneOf("boot", "template", "image-template")),
  /** Key of the template that its disk stands on. */
  template: decode.optional(decode.string),
  /** Milliseconds since the epoch. */
  endedAt: decode.optional(decode.integer),
});

/** @see recordDocument */
export type MachineRecord = decode.Decoded<typeof recordDocument>;

/** Reads the text of a `machine.json`. */
export function parseMachineRecord(text: string, file: string): MachineRecord {
  return recordDocument(JSON.parse(text), file);
}

const instanceStates = {
  starting: "pending",
  running: "running",
  stopping: "stopping",
  ended: "terminated",
} as const satisfies Record<MachineState, Instance["state"]>;

/** The machine as the port shows it. */
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

/** Name of the control group of a machine. */
export function machineGroupName(
  { namespace }: { readonly namespace: string },
  id: string,
): string {
  return `kip-${namespace}-${id}`;
}
