import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bandwidthOf } from "./bandwidth.ts";

const ingress = (value: string) => bandwidthOf({ "kubernetes.io/ingress-bandwidth": value });

describe("bandwidthOf()", () => {
  it("reads quantities from 1k to 1P as bits per second", () => {
    assert.deepEqual(bandwidthOf({}), { ingressBits: undefined, egressBits: undefined });
    assert.equal(ingress("1k").ingressBits, 1000);
    assert.equal(ingress("1P").ingressBits, 1e15);
    assert.equal(bandwidthOf({ "kubernetes.io/egress-bandwidth": "1.5Mi" }).egressBits, 1_572_864);
  });

  it("refuses other values in the kubelet's words, and names the annotation", () => {
    const refuses = (value: string, message: RegExp): void =>
      assert.throws(() => ingress(value), { code: "AGENT_BANDWIDTH_INVALID", message });
    refuses("999", /ingress-bandwidth="999": resource is unreasonably small \(< 1kbit\)/);
    refuses("-1M", /unreasonably small/);
    refuses("1001T", /unreasonably large \(> 1Pbit\)/);
    refuses("10 Mbit; qdisc", /Cannot read quantity/);
    refuses("9".repeat(10_000), /Cannot read quantity/);
  });
});
