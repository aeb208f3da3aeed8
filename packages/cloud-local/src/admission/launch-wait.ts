import { CloudError, type LaunchWait } from "@kip/cloud";
import type { Wait } from "./admission-plan.ts";
import { retryAfterMs } from "./capacity.ts";

/** Reporting every change of position would cost O(n²) API writes. So a position is reported when it has halved. */
export function isWorthReporting(now: Wait, reported: Wait | undefined): boolean {
  if (reported?.lack !== now.lack || reported.isBehind !== now.isBehind) return true;
  return (now.ahead + 1) * 2 <= reported.ahead + 1;
}

const names = { memory: "memory", disk: "disk", cpus: "CPUs", starts: "their start" } as const;

/** The error if only older requests prevent the launch. */
export function refusalBehind({ ahead, lack }: Wait): CloudError {
  const others = ahead === 1 ? "1 older request waits" : `${ahead} older requests wait`;
  return new CloudError(
    "CLOUD_NO_CAPACITY",
    `Cannot start a machine yet: ${others} for ${names[lack]}`,
    { remedy: "Delete pods, or wait for others to end", scope: { zone: "local" }, retryAfterMs },
  );
}

/** Describes why a launch is waiting. */
export function describeWait({ lack, ahead, isBehind }: Wait, refusal: CloudError): LaunchWait {
  if (lack === "starts")
    return { ahead, isTurn: true, message: `Other machines are starting; ${position(ahead)}` };
  const remedy = refusal.remedy === undefined ? "" : `. ${refusal.remedy}`;
  if (isBehind) return { ahead, message: `Waits for ${names[lack]}; ${position(ahead)}` };
  return { ahead, message: `${refusal.message}; ${position(ahead)}${remedy}` };
}

function position(ahead: number): string {
  return `place ${ahead + 1} in the queue`;
}
