import type { Pod } from "@kip/k8s-types";
import { eventTime, type StoredEvent } from "../cluster/list-events.ts";
import { costOf } from "../cost/sum-costs.ts";
import type { PodCell } from "../cluster/list-cells.ts";
import { typeText } from "../get/cell-columns.ts";
import { podStatusText } from "../get/pod-columns.ts";
import { ageText } from "../output/age.ts";
import { cents, dollars } from "../output/money.ts";
import { printable, tableText, type Column } from "../output/table.ts";
import { endTexts, restartTexts } from "./how-ended.ts";
import { startTimeLines } from "./start-times.ts";
import { waitsFor } from "./waits-for.ts";
import { machineReasons, type MachineRequest } from "./why-machine.ts";

/** The known facts about a pod. */
export interface PodFacts {
  readonly pod: Pod;
  /** The pod's newest cell. */
  readonly cell: PodCell | undefined;
  /** Whether its node is one of kip's. */
  readonly isOnKip: boolean;
  /** The pod's requirements as kip reads them. Undefined if the annotations are invalid. */
  readonly request: MachineRequest | undefined;
  /** About the pod and its cell. The oldest comes first. */
  readonly events: readonly StoredEvent[];
}

/** Everything that a user may want to know about a pod and its machine. */
export function explainText(facts: PodFacts, now: number): string {
  const { pod, cell, isOnKip, request, events } = facts;
  const { namespace, name, creationTimestamp } = pod.metadata;
  const age = ageText(creationTimestamp, now) ?? "0s";
  const ends = endTexts(pod);
  const startMs = cell?.status?.startMs;
  const sections = [
    `Pod ${namespace}/${name}: ${printable(podStatusText(pod))}, made ${age} ago\n`,
    rowsText([
      ["Node", pod.spec.nodeName ?? "none yet"],
      ["Machine", cell ? machineText(cell) : "none"],
      ...labelled("Why", machineReasons(pod, cell, isOnKip ? request : undefined)),
      ...(cell ? [["Costs", costText(cell, now)] as const] : []),
      ...labelled("Restarted", restartTexts(pod)),
      ...(ends.length > 0
        ? labelled("Ended", ends)
        : [["Waits for", waitsFor(pod, cell, isOnKip, events.at(-1)) ?? "nothing"] as const]),
    ]),
    ...(startMs
      ? [
          `Start, ${printable(cell.status.startedFrom ?? "boot")}:\n${indented(startTimeLines(startMs))}`,
        ]
      : []),
    ...conditionsText("Conditions of the pod", pod.status?.conditions ?? [], now),
    ...conditionsText("Conditions of the cell", cell?.status?.conditions ?? [], now),
    ...(events.length > 0
      ? [`Events:\n${indented(tableText(eventColumns(now), events).trimEnd().split("\n"))}`]
      : []),
  ];
  return sections.join("\n");
}

function machineText(cell: PodCell): string {
  const { metadata, spec, status } = cell;
  const parts = [
    `${metadata.name}, ${status?.phase ?? "Pending"}: ${typeText(cell)}`,
    ...(spec.zone === undefined ? [] : [`zone ${spec.zone}`]),
    ...(status?.instanceID === undefined ? [] : [`instance ${status.instanceID}`]),
    ...(status?.ip === undefined ? [] : [`at ${status.ip}`]),
  ];
  return parts.join(", ");
}

function costText(cell: PodCell, now: number): string {
  const { perHour, perMonth, soFar } = costOf(cell, now);
  return `${dollars(perHour)} an hour, ${cents(perMonth)} a month, ${cents(soFar)} so far`;
}

/** A condition of a pod or a cell. */
interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly lastTransitionTime?: string | undefined;
}

function conditionsText(
  title: string,
  conditions: readonly Condition[],
  now: number,
): readonly string[] {
  if (conditions.length === 0) return [];
  const columns: readonly Column<Condition>[] = [
    { name: "TYPE", text: ({ type }) => type },
    { name: "STATUS", text: ({ status }) => status },
    { name: "SINCE", text: ({ lastTransitionTime }) => ageText(lastTransitionTime, now) },
    { name: "REASON", text: ({ reason }) => reason ?? "-" },
    { name: "MESSAGE", text: ({ message }) => message ?? "-" },
  ];
  return [`${title}:\n${indented(tableText(columns, conditions).trimEnd().split("\n"))}`];
}

function eventColumns(now: number): readonly Column<StoredEvent>[] {
  return [
    { name: "AGE", text: (event) => ageText(eventTime(event), now) },
    { name: "TYPE", text: ({ type }) => type },
    {
      name: "REASON",
      text: ({ reason, count = 1 }) => (count > 1 ? `${reason} (${count} times)` : reason),
    },
    { name: "MESSAGE", text: ({ message }) => message },
  ];
}

/** A row with a label and a text. */
type Row = readonly [label: string, text: string];

/** Rows of which only the first has the label. */
function labelled(label: string, texts: readonly string[]): readonly Row[] {
  return texts.map((text, at) => [at === 0 ? label : "", text]);
}

function rowsText(rows: readonly Row[]): string {
  return indented(rows.map(([label, text]) => `${label.padEnd(10)} ${printable(text)}`));
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}\n`).join("");
}
