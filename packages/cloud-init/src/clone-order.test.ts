import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import {
  orderLine,
  parseOrder,
  userDataFields,
  userDataOf,
  type ImagePreload,
  type CloneIdentity,
} from "./clone-order.ts";
import { CloudInitError } from "./errors.ts";

const identity: CloneIdentity = {
  version: 1,
  instanceId: "i-1",
  hostname: "cell-1",
  machineId: "0123456789abcdef0123456789abcdef",
  unixMs: 1_700_000_000_000,
  entropy: Buffer.alloc(64, 7).toString("base64"),
  network: {
    mac: "02:6b:c6:12:00:10",
    address: "198.18.0.16/15",
    gateway: "198.18.0.2",
    nameservers: [],
  },
  userData: "#cloud-config\n{}",
};

const preload: ImagePreload = {
  version: 1,
  images: [`registry.example/app@sha256:${"0".repeat(64)}`],
  pull: "{}",
  unixMs: identity.unixMs,
  entropy: identity.entropy,
  network: identity.network,
};

describe("parseOrder()", () => {
  it("reads what orderLine wrote, which is one line", () => {
    const line = orderLine(identity);
    assert.equal(line.indexOf("\n"), line.length - 1);
    assert.deepEqual(parseOrder(line), { kind: "become", identity });
    assert.deepEqual(parseOrder(orderLine(preload)), { kind: "fetch", preload });
  });

  it("has user data byte by byte, and text as text", () => {
    const text = Buffer.from("#cloud-config\n{} # Größe");
    assert.equal(userDataFields(text).userData, text.toString());
    for (const data of [text, gzipSync(text), Buffer.from([0, 255, 10, 128]), Buffer.alloc(0)]) {
      const order = parseOrder(orderLine({ ...identity, ...userDataFields(data) }));
      assert.ok(order.kind === "become" && userDataOf(order.identity).equals(data));
    }
  });

  const invalid: readonly (readonly [string, object])[] = [
    ["another version", { version: 2 }],
    ["an ID of another form", { machineId: "x" }],
    ["too little entropy", { entropy: Buffer.alloc(31).toString("base64") }],
    ["no network", { network: undefined }],
  ];
  for (const [name, change] of invalid) {
    it(`refuses ${name}`, () => {
      const line = JSON.stringify({ ...identity, ...change });
      assert.throws(
        () => parseOrder(line),
        (error) => CloudInitError.is(error, "PERSONALITY_INVALID"),
      );
    });
  }

  it("refuses an image preload with too little entropy", () => {
    assert.throws(
      () => parseOrder(JSON.stringify({ ...preload, entropy: "" })),
      (error) => CloudInitError.is(error, "PERSONALITY_INVALID"),
    );
  });

  it("refuses half a line", () => {
    assert.throws(
      () => parseOrder(orderLine(identity).slice(0, 50)),
      (error) => CloudInitError.is(error, "PERSONALITY_INVALID"),
    );
  });
});
