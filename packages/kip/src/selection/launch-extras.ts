import { isDeepStrictEqual } from "node:util";
import { defined } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { CellConstraints } from "../annotations/read-annotations.ts";
import type { MachineSpec } from "../state/cell.ts";
import type { CellDefaults } from "./cell-chooser.ts";

type Extras = Pick<MachineSpec, "instanceProfile" | "securityGroups" | "routes">;

/** A machine's extras that its cloud supports: those that the pod requests, or the defaults. */
export function launchExtras(
  asked: Partial<Pick<CellConstraints, "instanceProfile" | "securityGroups" | "routes">>,
  defaults: Pick<CellDefaults, "instanceProfile">,
  { launchExtras: has = [] }: CloudDriver,
): Extras {
  const { securityGroups = [], routes = [], instanceProfile = defaults.instanceProfile } = asked;
  return defined({
    instanceProfile: has.includes("instanceProfile") ? instanceProfile : undefined,
    securityGroups:
      has.includes("securityGroups") && securityGroups.length > 0 ? securityGroups : undefined,
    routes: has.includes("routes") && routes.length > 0 ? routes : undefined,
  });
}

/** Whether two machines have the same instance profile, firewall groups and routes. */
export function haveSameExtras(a: Extras, b: Extras): boolean {
  return (
    a.instanceProfile === b.instanceProfile &&
    isDeepStrictEqual(groupsOf(a), groupsOf(b)) &&
    isDeepStrictEqual(a.routes ?? [], b.routes ?? [])
  );
}

/** Whether a cloud would get the same launch request for two machines. */
export function isSameMachine(a: MachineSpec, b: MachineSpec): boolean {
  return (
    a.instanceType === b.instanceType &&
    a.launchType === b.launchType &&
    a.zone === b.zone &&
    a.image === b.image &&
    a.rootDiskBytes === b.rootDiskBytes &&
    a.privateIPOnly === b.privateIPOnly &&
    haveSameExtras(a, b)
  );
}

function groupsOf({ securityGroups = [] }: Extras): readonly string[] {
  return [...securityGroups].sort();
}
