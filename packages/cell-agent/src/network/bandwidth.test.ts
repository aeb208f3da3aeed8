import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { shapingCommands } from "./bandwidth.ts";

describe("shapingCommands()", () => {
  it("holds back each direction on a device of the cell alone", () => {
    assert.deepEqual(shapingCommands({ ingressBits: 8e6 }, "kip-pod"), [
      "qdisc add dev kip-pod root tbf rate 8000000bit burst 50000 limit 75000",
    ]);
    assert.deepEqual(shapingCommands({ egressBits: 1000 }, "kip-pod").slice(0, 1), [
      "qdisc add dev kip-pod-out root tbf rate 1000bit burst 32768 limit 32772",
    ]);
    assert.deepEqual(shapingCommands({}, "kip-pod"), []);
  });

  it("has sizes that the kernel can count with the highest rate", () => {
    const [command = ""] = shapingCommands({ ingressBits: 1e15 }, "kip-pod");
    assert.ok(Number(/limit (\d+)/.exec(command)?.[1]) < 2 ** 32, command);
  });
});
