import { errorText, type Clock, type Logger } from "@kip/base";

/** Options of {@link watchEc2Notices}. */
export interface Ec2NoticesOptions {
  /** Reads a path below `latest` of the metadata service. Undefined if the path does not exist. */
  readonly read: (path: string, signal: AbortSignal) => Promise<string | undefined>;
  /** Called once with the time at which EC2 will reclaim the machine, RFC 3339. */
  readonly onEnd: (endsAt: string) => void;
  /** Called once if EC2 recommends leaving the machine, which may be long before it reclaims the machine, or without that. */
  readonly onRebalance: () => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Time between two checks, milliseconds. The metadata service sends no events and does not hold requests open, so a machine has
 * to poll. AWS recommends every 5 seconds for its notices of two minutes.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
 */
const pollMs = 5000;

/**
 * Polls for notices on a spot instance until there is one or the signal aborts. On other instances it stops at once. Never
 * throws.
 */
export async function watchEc2Notices(
  options: Ec2NoticesOptions,
  signal: AbortSignal,
): Promise<void> {
  let hasFailed = false;
  let isRebalanced = false;
  let isSpot = false;
  while (!signal.aborted) {
    try {
      isSpot ||= await lifeCycle();
      if (!isSpot) return;
      const endsAt = await readEnd();
      if (endsAt !== undefined) {
        options.onEnd(endsAt);
        return;
      }
      isRebalanced ||= await readRebalance();
      hasFailed = false;
    } catch (err) {
      if (signal.aborted) return;
      if (!hasFailed) options.logger.warn("Could not look for notices of EC2", { err });
      hasFailed = true;
    }
    await options.clock.sleep(pollMs, signal).catch(() => {}); // the loop's condition handles it
  }

  async function lifeCycle(): Promise<boolean> {
    return (await options.read("/meta-data/instance-life-cycle", signal)) === "spot";
  }

  async function readEnd(): Promise<string | undefined> {
    const text = await options.read("/meta-data/spot/instance-action", signal);
    return text === undefined ? undefined : timeOf(text);
  }

  async function readRebalance(): Promise<boolean> {
    const path = "/meta-data/events/recommendations/rebalance";
    if ((await options.read(path, signal)) === undefined) return false;
    options.onRebalance();
    return true;
  }
}

/**
 * The time in `{"action": "terminate", "time": "2026-01-02T03:04:05Z"}`. The action may differ, but in any case the pod loses
 * the machine.
 */
function timeOf(text: string): string {
  let time: unknown;
  try {
    const notice: unknown = JSON.parse(text);
    if (typeof notice === "object" && notice !== null && "time" in notice) time = notice.time;
  } catch (error) {
    throw new TypeError(`its notice is not JSON: ${errorText(error)}`, { cause: error });
  }
  const ms = typeof time === "string" ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(ms)) throw new TypeError("its notice has no time");
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
