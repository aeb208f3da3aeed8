import type { AnyCell } from "../cluster/list-cells.ts";
import { podOf } from "../cluster/list-cells.ts";
import { ageText } from "../output/age.ts";
import { dollars } from "../output/money.ts";
import type { Column } from "../output/table.ts";

/** The columns that the Cell's resource definition has for `kubectl get cells`. */
export function cellColumns(now: number): readonly Column<AnyCell>[] {
  return [
    { name: "NAME", text: ({ metadata }) => metadata.name },
    { name: "POD NAME", text: (cell) => podOf(cell)?.name },
    { name: "POD NAMESPACE", text: (cell) => podOf(cell)?.namespace },
    { name: "NODE", text: ({ spec }) => spec.nodeName },
    { name: "LAUNCH TYPE", text: ({ spec }) => spec.launchType },
    { name: "INSTANCE TYPE", text: ({ spec }) => spec.instanceType },
    { name: "INSTANCE ID", text: ({ status }) => status?.instanceID },
    { name: "IP", text: ({ status }) => status?.ip },
    { name: "PHASE", text: phaseOf },
    { name: "PRICE", text: ({ spec }) => dollars(spec.pricePerHour ?? 0) },
    { name: "AGE", text: ({ metadata }) => ageText(metadata.creationTimestamp, now) },
    { name: "ZONE", isWide: true, text: ({ spec }) => spec.zone },
    { name: "STANDBY", isWide: true, text: ({ spec }) => String(spec.standby ?? false) },
    { name: "STARTED FROM", isWide: true, text: ({ status }) => status?.startedFrom },
    { name: "WAITS FOR", isWide: true, text: (cell) => waitOf(cell)?.reason },
  ];
}

/** The original's columns for its nodes, which are cells here. */
export function nodeColumns(now: number): readonly Column<AnyCell>[] {
  return [
    { name: "NAME", text: ({ metadata }) => metadata.name },
    { name: "STATUS", text: phaseOf },
    { name: "INSTANCE-TYPE", text: typeText },
    { name: "INSTANCE", text: ({ status }) => status?.instanceID },
    { name: "IP", text: ({ status }) => status?.ip },
    { name: "AGE", text: ({ metadata }) => ageText(metadata.creationTimestamp, now) },
    { name: "POD", isWide: true, text: podText },
    { name: "ZONE", isWide: true, text: ({ spec }) => spec.zone },
    { name: "PRICE", isWide: true, text: ({ spec }) => dollars(spec.pricePerHour ?? 0) },
    { name: "VIRTUAL-NODE", isWide: true, text: ({ spec }) => spec.nodeName },
  ];
}

/** The phase of a cell. A Cell without a status has just been created. */
export function phaseOf({ status }: AnyCell): string {
  return status?.phase ?? "Pending";
}

/** The instance type, with the launch type unless that is on-demand. */
export function typeText({ spec }: Pick<AnyCell, "spec">): string {
  const { instanceType, launchType } = spec;
  return launchType === "on-demand" ? instanceType : `${instanceType} (${launchType})`;
}

/** Why a cell is waiting: its first condition that is not true. Undefined if it is not waiting. */
export function waitOf({
  status,
}: Pick<AnyCell, "status">): { readonly reason: string; readonly message: string } | undefined {
  return status?.conditions?.find((condition) => condition.status !== "True");
}

function podText(cell: AnyCell): string | undefined {
  const pod = podOf(cell);
  return pod && `${pod.namespace}/${pod.name}`;
}
