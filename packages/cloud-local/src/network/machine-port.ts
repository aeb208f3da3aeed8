import { macOf, tapOf } from "../qemu/qemu-arguments.ts";
import type { AddressPlan } from "./address-plan.ts";

/** What a machine has of the network: all of it follows from its slot. */
export interface MachinePort {
  /** Its device on the bridge. */
  readonly device: string;
  /** The hardware address that its frames come from. */
  readonly mac: string;
  /** Its own address and its pod's: those that it may send from. */
  readonly addresses: readonly string[];
  /** The same of IPv6; none where the network has IPv4 alone. */
  readonly ipv6Addresses: readonly string[];
}

/** The port of machine `slot`. */
export function machinePort(plan: AddressPlan, slot: number): MachinePort {
  const machine = plan.machine(slot);
  const { ipv6 } = plan;
  return {
    device: tapOf(slot),
    mac: macOf(machine),
    addresses: [machine, plan.pod(slot)],
    ipv6Addresses: ipv6 ? [ipv6.machine(slot), ipv6.pod(slot)] : [],
  };
}

/** The port that a device on the bridge is; undefined if it is not a machine's. */
export function portOfDevice(plan: AddressPlan, device: string): MachinePort | undefined {
  const slot = Number(/^cell(\d{1,9})$/.exec(device)?.[1] ?? Number.NaN);
  return slot <= plan.preloadSlot ? machinePort(plan, slot) : undefined;
}
