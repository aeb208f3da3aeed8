import { PodEvents, type NewEvent } from "../src/state/pod-events.ts";

/** Events of a pod, and the list that keeps them. */
export function eventList(): { readonly events: PodEvents; readonly list: readonly NewEvent[] } {
  const list: NewEvent[] = [];
  return { events: new PodEvents((event) => void list.push(event)), list };
}
