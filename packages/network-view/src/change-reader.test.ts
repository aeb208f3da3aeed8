import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DecodeError } from "@kip/base";
import { ChangeReader } from "./change-reader.ts";
import { limits } from "./limits.ts";
import { encodeLine } from "./view-line.ts";

const service = {
  kind: "service",
  key: "a/b",
  view: { clusterIps: ["10.0.0.1"], ports: [] },
} as const;
const text =
  encodeLine(service) +
  encodeLine({ kind: "bucket", bucket: 1 }) +
  encodeLine({ kind: "end", number: 1 });

describe("ChangeReader", () => {
  it("gives a change when its last line is there, however the bytes are cut", () => {
    const reader = new ChangeReader();
    const bytes = Buffer.from(text + text);
    const changes = [...bytes].flatMap((byte) => [...reader.push(Buffer.from([byte]))]);
    assert.equal(changes.length, 2);
    assert.deepEqual(changes[0]?.services, new Map([["a/b", service.view]]));
    assert.deepEqual(changes[0].buckets, [1]);
    assert.deepEqual([...new ChangeReader().push(bytes)], changes);
  });

  it("refuses a line without an end, before it is complete", () => {
    const reader = new ChangeReader();
    const push = (): void => {
      for (let i = 0; i < 3; i++)
        assert.deepEqual([...reader.push(Buffer.alloc(limits.lineBytes / 2, "x"))], []);
    };
    assert.throws(push, (error) => DecodeError.is(error, "DECODE_FAILED"));
  });

  it("refuses what is not JSON", () => {
    assert.throws(
      () => [...new ChangeReader().push(Buffer.from("flush ruleset\n"))],
      (error) => DecodeError.is(error, "DECODE_FAILED"),
    );
  });
});
