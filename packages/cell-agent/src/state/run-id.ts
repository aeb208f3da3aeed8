import { createHash } from "node:crypto";

/** ID of a run at the runtime: the same after a restart of the agent, so nothing is run twice. */
export function runId(podUid: string, container: string, attempt: number): string {
  const hash = createHash("sha256").update(`${podUid}/${container}/${attempt}`);
  return hash.digest("hex").slice(0, 32);
}

/**
 * ID of a run as the API shows it. Not the runtime's own: one that was prepared before the machine was
 * copied is the same on each copy.
 */
export function shownId(podUid: string, container: string, attempt: number): string {
  return `crun://${runId(podUid, container, attempt)}`;
}
