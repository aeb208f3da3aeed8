import assert from "node:assert/strict";
import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { begunStream } from "./begun-stream.ts";

describe("begunStream()", () => {
  it("gives the whole content, also where there is none", async () => {
    const pieces = [Buffer.from("one "), Buffer.from("two")];
    assert.equal(await text(await begunStream(Readable.from(pieces))), "one two");
    assert.equal(await text(await begunStream(Readable.from([]))), "");
  });

  it("throws what fails before the first bytes, and later hands on what fails then", async () => {
    const closed = new PassThrough();
    const begun = begunStream(closed);
    closed.destroy();
    await assert.rejects(begun, { code: "ERR_STREAM_PREMATURE_CLOSE" });
    const broken = new PassThrough();
    broken.write("one");
    const content = await begunStream(broken);
    broken.destroy(new Error("gone"));
    await assert.rejects(text(content), { message: "gone" });
  });

  it("destroys the stream when its reader leaves", async () => {
    const stream = new PassThrough();
    stream.write("one");
    for await (const _ of await begunStream(stream)) break;
    assert.equal(stream.destroyed, true);
  });
});
