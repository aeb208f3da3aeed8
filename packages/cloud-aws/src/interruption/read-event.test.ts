import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readEvent } from "./read-event.ts";

const now = Date.parse("2026-05-01T12:00:00Z");
const event = (changes: object = {}): string =>
  JSON.stringify({
    source: "aws.ec2",
    "detail-type": "EC2 Spot Instance Interruption Warning",
    time: "2026-05-01T11:59:00Z",
    detail: { "instance-id": "i-0123456789abcdef0", "instance-action": "terminate" },
    ...changes,
  });

function endIn(changes: object): number {
  const read = readEvent(event(changes), now);
  return read === "other" ? Number.NaN : (read.endsAtMs - now) / 1000;
}

describe("readEvent()", () => {
  it("takes a warning for an end two minutes after it", () => {
    const read = readEvent(event(), now);
    assert.deepEqual(read, { instanceId: "i-0123456789abcdef0", endsAtMs: now + 60_000 });
  });

  it("gives ten minutes after a recommendation to rebalance", () => {
    assert.equal(endIn({ "detail-type": "EC2 Instance Rebalance Recommendation" }), 540);
  });

  it("takes no time later than now, none that is not a time, and none that no queue could have kept", () => {
    assert.equal(endIn({ time: "2026-05-01T13:00:00Z" }), 120);
    assert.equal(endIn({ time: "+275760-09-13T00:00:00Z" }), 120);
    assert.equal(endIn({ time: "soon" }), 120);
    assert.equal(endIn({ time: "-271821-04-20T00:00:00Z" }), 120 - 14 * 86_400);
  });

  it("ignores events of other sources and kinds", () => {
    for (const changes of [{ source: "aws.health" }, { "detail-type": "constructor" }])
      assert.equal(readEvent(event(changes), now), "other");
  });

  it("refuses what is not an event of an instance", () => {
    const detail = { "instance-id": "i-*" };
    for (const body of ["", "null", "[]", "{}", event({ detail: {} }), event({ detail })])
      assert.throws(() => readEvent(body, now));
  });
});
