import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import * as fc from "fast-check";
import { serialOf, volumeId } from "./volume-record.ts";
import { checkDiskRoom, diskSize } from "./volume-room.ts";

const MiB = 2 ** 20;

describe("diskSize()", () => {
  it("is whole MiB, and never less than what was asked for", () => {
    fc.assert(
      fc.property(fc.integer({ min: MiB, max: 2 ** 43 }), (asked) => {
        const size = diskSize("make a volume of", asked);
        return size % MiB === 0 && size >= asked && size - asked < MiB;
      }),
    );
  });

  for (const bad of [0, -1, MiB - 1, MiB + 0.5, 2 ** 43 + 1, Number.NaN, Infinity])
    it(`refuses ${bad}`, () =>
      assert.throws(
        () => diskSize("make a volume of", bad),
        (error) => CloudError.is(error, "CLOUD_INVALID_REQUEST"),
      ));
});

describe("checkDiskRoom()", () => {
  it("wants as much to be free as is needed, and says how much is", () => {
    checkDiskRoom("make a volume", 10 * MiB, 10 * MiB);
    assert.throws(
      () => checkDiskRoom("make a volume", 10 * MiB, 10 * MiB - 1),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") && /10 MiB .* 9 MiB left/.test(String(error)),
    );
  });
});

describe("volumeId()", () => {
  it("follows from owner and token, and gives a serial number of 20 characters", () => {
    const ids = [volumeId("a", "t"), volumeId("b", "t"), volumeId("a", "u"), volumeId("at", "")];
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(volumeId("a", "t"), ids[0]);
    for (const id of ids) assert.match(serialOf(id), /^vol[0-9a-f]{17}$/);
  });
});
