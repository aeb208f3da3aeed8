import { randomBytes } from "node:crypto";
import { systemClock } from "@kip/base";
import type { ImagePreload } from "@kip/cloud-init";
import type { AddressPlan } from "../network/address-plan.ts";
import { machinePort } from "../network/machine-port.ts";

/** What every order to a copy has: the time it is now, random numbers of its own, and a network. */
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
