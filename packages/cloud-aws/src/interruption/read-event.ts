import { decode } from "@kip/base";

/** AWS' announcement about an instance. */
export interface InterruptionEvent {
  readonly instanceId: string;
  /** When the instance ends, or should no longer be used, milliseconds since the Unix epoch. */
  readonly endsAtMs: number;
}

/** Time from an event to the instance's end, milliseconds, by the event's `detail-type`. */
const noticesMs: ReadonlyMap<string, number> = new Map([
  // EC2 takes the instance back two minutes later.
  ["EC2 Spot Instance Interruption Warning", 120_000],
  // EC2 may take it back at any time, but gives another two minutes' notice then, so this is not urgent.
  ["EC2 Instance Rebalance Recommendation", 600_000],
]);

/** How long a queue may keep a message: 14 days, in milliseconds. */
const longestKeptMs = 1_209_600_000;

/**
 * An event from EventBridge in a queue. Further fields are ignored.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
 */
const decodeEvent = decode.object({
  source: decode.string,
  "detail-type": decode.string,
  time: decode.string,
  detail: decode.object({ "instance-id": decode.string }),
});

/**
 * Parses the body of a message.
 *
 * @returns "other" for an event that is not about an interruption
 * @throws {DecodeError} if it is not an event of an instance
 * @throws {SyntaxError} if it is not JSON
 */
export function readEvent(body: string, nowMs: number): InterruptionEvent | "other" {
  const parsed: unknown = JSON.parse(body);
  const kind = decode.object({ source: decode.string, "detail-type": decode.string })(parsed, "");
  const noticeMs = noticesMs.get(kind["detail-type"]);
  if (kind.source !== "aws.ec2" || noticeMs === undefined) return "other";
  const { time, detail } = decodeEvent(parsed, "");
  const instanceId = detail["instance-id"];
  if (!/^i-[\da-f]{8,32}$/.test(instanceId))
    throw decode.failure("detail.instance-id", "the ID of an instance", instanceId);
  return { instanceId, endsAtMs: momentOf(time, nowMs) + noticeMs };
}

/** Time of an event. Limited to now, because clocks differ, and to the days for which a queue may keep it. */
function momentOf(time: string, nowMs: number): number {
  const at = Date.parse(time);
  return Number.isNaN(at) ? nowMs : Math.max(Math.min(at, nowMs), nowMs - longestKeptMs);
}
