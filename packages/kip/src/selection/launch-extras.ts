import { isDeepStrictEqual } from "node:util";
import { defined } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { CellConstraints } from "../annotations/read-annotations.ts";
import type { MachineSpec } from "../state/cell.ts";
import type { CellDefaults } from "./cell-chooser.ts";

type Extras = Pick<MachineSpec, "instanceProfile" | "securityGroups" | "routes">;

/** What a machine has besides, of what its cloud can give: what the pod asks for, else the default. */
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

function groupsOf({ securityGroups = [] }: Extras): readonly string[] {
  return [...securityGroups].sort();
}
