import { createHash } from "node:crypto";

/** The runtime's ID of a run. It is the same after a restart of the agent, so nothing is run twice. */
export function runId(podUid: string, container: string, attempt: number): string {
  const hash = createHash("sha256").update(`${podUid}/${container}/${attempt}`);
  return hash.digest("hex").slice(0, 32);
}

/**
 * The ID of a run in the API. It differs from the runtime's, because a run that was prepared before the machine was cloned has
 * the same ID in each clone.
 */
export function shownId(podUid: string, container: string, attempt: number): string {
  return `crun://${runId(podUid, container, attempt)}`;
}
