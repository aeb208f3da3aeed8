import { formatBytes } from "@kip/base";
import type { LeftOvers, OwnedInstance } from "@kip/kip";

/** Whether an installation has, or may have, something in its cloud that costs money. */
export function isCosting({ instances, volumes, hosts, hostsUnknown }: LeftOvers): boolean {
  const isAny = instances.length > 0 || volumes.length > 0 || hosts.length > 0;
  return isAny || hostsUnknown !== undefined;
}

/** Lists what is left of an installation, one item per line, with a sentence that sums it up. */
export function leftOversText(left: LeftOvers): string {
  const { instances, volumes, hosts, cells } = left;
  const lines = [
    ...instances.map((instance) => {
      const { id, instanceType, launchType, state, launchedAt } = instance;
      return `instance ${id}  ${instanceType} ${launchType}  ${state}, since ${launchedAt}  ${placeOf(instance)}`;
    }),
    ...volumes.map(({ id, sizeBytes, name, attachedTo }) => {
      const place = attachedTo === undefined ? "attached to none" : `attached to ${attachedTo}`;
      return `volume ${id}  ${formatBytes(sizeBytes)}  "${name}", ${place}`;
    }),
    ...hosts.map(({ id, instanceType, zone, allocatedAt, instanceIds }) => {
      const on = instanceIds.length === 0 ? "no instance" : instanceIds.join(", ");
      return `dedicated host ${id}  ${instanceType} in ${zone}  since ${allocatedAt}  ${on}`;
    }),
  ];
  const { hostsUnknown } = left;
  const unknown =
    hostsUnknown === undefined ? [] : [`Dedicated hosts are not known. ${hostsUnknown}`];
  return [...lines, ...unknown, summary(left, cells.length)].join("\n");
}

function placeOf({ cell, isOfThisCluster }: OwnedInstance): string {
  if (cell) return `Cell ${cell.metadata.name}, node ${cell.spec.nodeName}`;
  return isOfThisCluster
    ? "no Cell"
    : "of another cluster with this testing.controllerID: it stays";
}

function summary(left: LeftOvers, cells: number): string {
  if (isCosting(left)) {
    const things = [
      count(left.instances.length, "instance"),
      ...(left.hosts.length > 0 ? [count(left.hosts.length, "dedicated host")] : []),
    ];
    return `${things.join(", ")} and ${count(left.volumes.length, "volume")} cost money.`;
  }
  const rest = cells === 0 ? "" : ` ${count(cells, "Cell")} without an instance: kip deletes them.`;
  return `Nothing that costs money: no instances, no volumes.${rest}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
