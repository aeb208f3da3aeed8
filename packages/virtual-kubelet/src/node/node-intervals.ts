import { VirtualKubeletError } from "../errors.ts";
import type { NodeIntervals } from "./node-options.ts";

const leaseDurationMs = 40_000;

/** As in the kubelet, a Lease is valid for four renewals. */
const leaseRenewals = 4;

/**
 * Adds the defaults.
 *
 * @throws {VirtualKubeletError} `VK_OPTIONS_INVALID` for an interval that is not above 0, or a Lease that would expire before
 * its renewal
 */
export function nodeIntervals(wanted: Partial<NodeIntervals> = {}): NodeIntervals {
  const duration =
    wanted.leaseDurationMs ??
    (wanted.leaseMs === undefined ? leaseDurationMs : wanted.leaseMs * leaseRenewals);
  const intervals: NodeIntervals = {
    pingMs: 10_000,
    pingTimeoutMs: 30_000,
    statusMs: 300_000,
    sweepMs: 60_000,
    podBackoffMs: 500,
    podBackoffMaxMs: 60_000,
    slowCallMs: 60_000,
    leaseMs: duration / leaseRenewals,
    ...wanted,
    leaseDurationMs: duration,
  };
  for (const [name, value] of Object.entries(intervals)) {
    if (!(value > 0)) throw invalid(`${name} is ${value}, and must be above 0`);
  }
  if (intervals.leaseMs >= intervals.leaseDurationMs)
    throw invalid(`leaseMs (${intervals.leaseMs}) must be below leaseDurationMs (${duration})`);
  return intervals;
}

function invalid(reason: string): VirtualKubeletError {
  return new VirtualKubeletError("VK_OPTIONS_INVALID", `Cannot use these intervals: ${reason}`, {
    remedy: "Leave the interval out to have its default",
  });
}
