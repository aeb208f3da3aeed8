import { randomBytes } from "node:crypto";
import { systemClock } from "@kip/base";
import type { ImagePreload } from "@kip/cloud-init";
import type { AddressPlan } from "../network/address-plan.ts";
import { machinePort } from "../network/machine-port.ts";

/** The common part of every order to a copy: the current time, new random numbers, and a network. */
export function freshCloneState(
  plan: AddressPlan,
  slot: number,
  nameservers: readonly string[],
): Pick<ImagePreload, "unixMs" | "entropy" | "network"> {
  return {
    unixMs: systemClock.now(),
    entropy: randomBytes(64).toString("base64"),
    network: {
      mac: machinePort(plan, slot).mac,
      address: `${plan.machine(slot)}/${plan.prefixLength}`,
      gateway: plan.gateway,
      nameservers,
    },
  };
}
