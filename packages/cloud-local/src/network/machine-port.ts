import { macOf, tapOf } from "../qemu/qemu-arguments.ts";
import type { AddressPlan } from "./address-plan.ts";

/** A machine's part of the network, which depends only on its slot. */
export interface MachinePort {
  /** Its device on the bridge. */
  readonly device: string;
  /** Source MAC address of its frames. */
  readonly mac: string;
  /** Its own address and its pod's. It may send from both. */
  readonly addresses: readonly string[];
  /** The same for IPv6. Empty in an IPv4-only network. */
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

/** The port for a device on the bridge. Undefined if the device is not a machine's. */
export function portOfDevice(plan: AddressPlan, device: string): MachinePort | undefined {
  const slot = Number(/^cell(\d{1,9})$/.exec(device)?.[1] ?? Number.NaN);
  return slot <= plan.preloadSlot ? machinePort(plan, slot) : undefined;
}
