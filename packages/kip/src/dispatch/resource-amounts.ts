import type { ResourceAmounts } from "@kip/agent-api";
import { bytes, defined, milliCpu } from "@kip/base";
import type { Container } from "@kip/k8s-types";

type Requirements = Pick<NonNullable<Container["resources"]>, "limits" | "requests">;

/** Limits and requests of CPU and memory as numbers, limited to what the agent accepts. */
export function resourceAmounts({
  limits = {},
  requests = {},
}: Requirements = {}): ResourceAmounts {
  const amount = (text: string | undefined, read: (text: string) => number): number | undefined =>
    text === undefined ? undefined : Math.min(read(text), Number.MAX_SAFE_INTEGER);
  return defined({
    cpuMilliLimit: amount(limits["cpu"], milliCpu),
    cpuMilliRequest: amount(requests["cpu"], milliCpu),
    memoryBytesLimit: amount(limits["memory"], bytes),
    memoryBytesRequest: amount(requests["memory"], bytes),
  });
}
