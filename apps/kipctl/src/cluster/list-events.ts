import { paths, type ApiClient } from "@kip/k8s-client";
import type { Event, StoredMeta } from "@kip/k8s-types";
import { listKipNodes } from "./kip-nodes.ts";

/** An Event as read from an API server. */
export interface StoredEvent extends Event {
  readonly metadata: StoredMeta;
}

/** Maximum number of events, as in the original. */
const maxEvents = 4000;

/** The newest events that kip wrote, about pods, volumes and nodes. The oldest comes first. */
export async function listKipEvents(
  client: ApiClient,
  query: { readonly namespace: string | undefined; readonly signal: AbortSignal },
): Promise<readonly StoredEvent[]> {
  const { namespace, signal } = query;
  const [nodes, events] = await Promise.all([
    listKipNodes(client, signal),
    client.list<StoredEvent>(paths.events(namespace), { signal }),
  ]);
  const isOfKip = ({ source, reportingInstance }: Event): boolean =>
    nodes.includes(source?.host ?? reportingInstance ?? "");
  return byTime(events.items.filter(isOfKip)).slice(-maxEvents);
}

/** Events about one object. The oldest comes first. */
export async function listEventsOf(
  client: ApiClient,
  { namespace, uid, signal }: { namespace: string; uid: string; signal: AbortSignal },
): Promise<readonly StoredEvent[]> {
  const query = { fieldSelector: `involvedObject.uid=${uid}` };
  const { items } = await client.list<StoredEvent>(paths.events(namespace), { query, signal });
  return byTime(items);
}

/** When the event last occurred, RFC 3339. */
export function eventTime(event: StoredEvent): string {
  const { series, lastTimestamp, eventTime, metadata } = event;
  const times = [series?.lastObservedTime, lastTimestamp, eventTime, metadata.creationTimestamp];
  return times.find((time) => typeof time === "string") ?? "";
}

function byTime(events: readonly StoredEvent[]): readonly StoredEvent[] {
  return [...events].sort((a, b) => Date.parse(eventTime(a)) - Date.parse(eventTime(b)));
}
