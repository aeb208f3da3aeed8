import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { growth } from "@kip/base/testing";
import { readError, readText } from "./answers.ts";

describe("readText()", () => {
  it("hostile cell: takes linear time and one buffer for a body that comes byte by byte", async () => {
    const piece = Buffer.from("x");
    const read = async (size: number): Promise<void> => {
      const pieces = function* (): Generator<Buffer> {
        for (let count = 0; count < size; count += 1) yield piece;
      };
      assert.equal((await readText(Readable.from(pieces()))).length, size);
    };
    assert.ok((await growth(read, 256 * 1024)) < 40);
  });

  it("hostile cell: reads no more than a document may have", async () => {
    const body = Readable.from([Buffer.alloc(256 * 1024), Buffer.alloc(1)]);
    await assert.rejects(readText(body), { code: "AGENT_ANSWER_INVALID" });
  });
});

describe("readError()", () => {
  it("hostile cell: reads no long error", async () => {
    const code = "AGENT_NO_POD";
    const answer = (message: string) =>
      Readable.from([Buffer.from(JSON.stringify({ code, message }))]);
    assert.match(String(await readError(answer("short"), 404)), /short/);
    assert.match(String(await readError(answer("x".repeat(16 * 1024)), 404)), /status 404/);
  });
});
