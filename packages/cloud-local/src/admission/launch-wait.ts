import { CloudError, type LaunchWait } from "@kip/cloud";
import type { Wait } from "./admission-plan.ts";
import { retryAfterMs } from "./capacity.ts";

/** Reporting every change of place would cost O(n²) API writes, so a place is reported when it has halved. */
export function isWorthReporting(now: Wait, reported: Wait | undefined): boolean {
  if (reported?.lack !== now.lack || reported.isBehind !== now.isBehind) return true;
  return (now.ahead + 1) * 2 <= reported.ahead + 1;
}

const names = { memory: "memory", disk: "disk", cpus: "CPUs", starts: "their start" } as const;

/** The error if there would be room, were it not for those who asked before. */
export function refusalBehind({ ahead, lack }: Wait): CloudError {
  const others = ahead === 1 ? "1 older request waits" : `${ahead} older requests wait`;
  return new CloudError(
    "CLOUD_NO_CAPACITY",
    `Cannot start a machine yet: ${others} for ${names[lack]}`,
    { remedy: "Delete pods, or wait for others to end", scope: { zone: "local" }, retryAfterMs },
  );
}

/** The report on what a launch waits for. */
export function describeWait({ lack, ahead, isBehind }: Wait, refusal: CloudError): LaunchWait {
  if (lack === "starts") return { ahead, message: `Other machines are starting; ${place(ahead)}` };
  const remedy = refusal.remedy === undefined ? "" : `. ${refusal.remedy}`;
  if (isBehind) return { ahead, message: `Waits for ${names[lack]}; ${place(ahead)}` };
  return { ahead, message: `${refusal.message}; ${place(ahead)}${remedy}` };
}

function place(ahead: number): string {
  return `place ${ahead + 1} in the queue`;
}
