import { eventTime, type StoredEvent } from "../cluster/list-events.ts";
import type { Column } from "../output/table.ts";

/** The original's columns for events. NAME is the object of an event, STATUS its reason. */
export function eventColumns(hasNamespace: boolean): readonly Column<StoredEvent>[] {
  return [
    { name: "TIMESTAMP", text: eventTime },
    ...(hasNamespace
      ? [{ name: "NAMESPACE", text: ({ involvedObject }: StoredEvent) => involvedObject.namespace }]
      : []),
    { name: "NAME", text: ({ involvedObject }) => involvedObject.name },
    { name: "KIND", text: ({ involvedObject }) => involvedObject.kind },
    { name: "STATUS", text: ({ reason }) => reason },
    { name: "SOURCE", text: sourceText },
    { name: "MESSAGE", text: ({ message }) => message },
    { name: "TYPE", isWide: true, text: ({ type }) => type },
    { name: "COUNT", isWide: true, text: ({ count }) => String(count ?? 1) },
  ];
}

function sourceText({ source, reportingComponent }: StoredEvent): string {
  const component = source?.component ?? reportingComponent ?? "";
  return source?.host === undefined ? component : `${component}, ${source.host}`;
}
