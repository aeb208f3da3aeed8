import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DecodeError } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { cpuText, mebibytesText } from "../output/amounts.ts";
import { shareText, totalRequest } from "./pod-requests.ts";
import { decodeSummary } from "./stats-summary.ts";

describe("decodeSummary()", () => {
  const podRef = { namespace: "n", name: "web", uid: "u" };

  it("takes what is known of each pod", () => {
    const whole = {
      podRef,
      cpu: { time: "t", usageNanoCores: 5 },
      memory: { workingSetBytes: 6 },
      "ephemeral-storage": { usedBytes: 7 },
    };
    assert.deepEqual(decodeSummary({ node: {}, pods: [whole, { podRef }] }), [
      { podRef, time: "t", cpuNanoCores: 5, memoryBytes: 6, diskBytes: 7 },
      {
        podRef,
        time: undefined,
        cpuNanoCores: undefined,
        memoryBytes: undefined,
        diskBytes: undefined,
      },
    ]);
    assert.deepEqual(decodeSummary({ node: {} }), []);
  });

  it("refuses what is not a summary", () => {
    assert.throws(() => decodeSummary({ pods: [{}] }), DecodeError);
    assert.throws(() => decodeSummary("page"), DecodeError);
  });
});

describe("amounts of usage", () => {
  it("are printed as kubectl top prints them", () => {
    assert.deepEqual([0, 1, 1_500_000, 2e9].map(cpuText), ["0m", "1m", "2m", "2000m"]);
    assert.equal(cpuText(undefined), undefined);
    assert.equal(mebibytesText(64 * 2 ** 20 - 1), "64Mi");
  });

  it("are compared with what all containers request", () => {
    const of = (memory: string) => ({ name: memory, resources: { requests: { memory } } });
    const pod = podWith({ spec: { containers: [of("1Ki"), of("2Ki"), { name: "none" }] } });
    const total = totalRequest(pod, "memory", (text) => Number.parseInt(text, 10) * 1024);
    assert.equal(total, 3072);
    assert.equal(shareText(1536, total), "50%");
    assert.equal(shareText(1, 0), undefined);
    assert.equal(shareText(Number.NaN, 1), undefined);
  });
});
