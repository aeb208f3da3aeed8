import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { deleteRequest, listRequest, readAnswers } from "./conntrack-messages.ts";

/** A UDP connection from 10.166.0.1:40000 to 10.96.0.1:53 that was translated to 127.0.0.1:5353, and the list's end. */
const listed = Buffer.from(
  "74000000000122000100000000000000" + // header: new
    "02000000" +
    "34000180140001800800010000000000080002000a600001" +
    "1c0002800500010011000000060002009c4000000600030000350000" +
    "34000280140001800800010" +
    "07f00000108000200000000001c00028005000100110000000600020014e90000060003009c400000",
  "hex",
);
const done = Buffer.from("1400000003000200010000000000000000000000", "hex");

describe("readAnswers()", () => {
  it("reads a connection and the end of the list, however they are cut", () => {
    listed.writeUInt32LE(listed.length, 0);
    const bytes = Buffer.concat([listed, done]);
    const { answers, rest } = readAnswers(bytes);
    assert.equal(rest.length, 0);
    const [first, second] = answers;
    assert.ok(first?.kind === "flow");
    assert.equal(second?.kind, "done");
    const { destination, port, replySource, replyPort } = first.flow;
    assert.deepEqual(
      [destination, port, replySource, replyPort],
      ["10.96.0.1", 53, "127.0.0.1", 5353],
    );
    const part = readAnswers(bytes.subarray(0, listed.length - 1));
    assert.deepEqual(part.answers, []);
    assert.equal(part.rest.length, listed.length - 1);
  });

  it("ends with bytes that are not messages", () => {
    for (const bytes of [Buffer.alloc(64), Buffer.alloc(64, 0xff)])
      assert.ok(readAnswers(bytes).answers.length < 5);
  });
});

describe("deleteRequest()", () => {
  it("names the connection by the tuple that the kernel has sent", () => {
    const [answer] = readAnswers(listed).answers;
    assert.ok(answer?.kind === "flow");
    const request = deleteRequest(answer.flow);
    assert.equal(request.readUInt32LE(0), request.length);
    assert.deepEqual(request.subarray(20), answer.flow.tuple);
    assert.equal(listRequest(6)[16], 10);
  });
});

describe("listRequest()", () => {
  it("has the kernel leave out what is not UDP", () => {
    const tuple = "100001800c0002800500010011000000";
    const filter = "0c0019800800010008000000"; // compares the protocol alone
    assert.equal(listRequest(4).subarray(20).toString("hex"), tuple + filter);
  });

  it("has it leave out what is to another port", () => {
    const tuple = "180001801400028005000100110000000600030000350000";
    const filter = "0c0019800800010028000000"; // compares the protocol and the destination's port
    assert.equal(listRequest(4, { port: 53 }).subarray(20).toString("hex"), tuple + filter);
  });
});
