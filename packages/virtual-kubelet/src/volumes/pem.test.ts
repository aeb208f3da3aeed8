import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { growth } from "@kip/base/testing";
import { certificatesPem, pemBlocks } from "./pem.ts";

const block = (body: string): string =>
  `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;

describe("pemBlocks()", () => {
  it("reads the blocks of a text, without headers and what stands between", () => {
    const text = `first\n${block("AAAA\r\nBBBB")}between\n${block("Name: value\n\nCCCC")}last`;
    assert.deepEqual(pemBlocks(text), ["AAAABBBB", "CCCC"]);
    assert.deepEqual(pemBlocks("-----BEGIN CERTIFICATE-----\nAAAA"), []);
    assert.deepEqual(pemBlocks(""), []);
  });

  it("takes linear time", async () => {
    const read = (size: number) => pemBlocks("-----BEGIN X-----\n".repeat(size));
    assert.ok((await growth(read, 5000)) < 40);
  });
});

describe("certificatesPem()", () => {
  it("writes each certificate with lines of 64 characters", () => {
    const text = certificatesPem(["A".repeat(70), "BBBB"]);
    assert.equal(text, block(`${"A".repeat(64)}\nAAAAAA`) + block("BBBB"));
    assert.deepEqual(pemBlocks(text), ["A".repeat(70), "BBBB"]);
  });
});
