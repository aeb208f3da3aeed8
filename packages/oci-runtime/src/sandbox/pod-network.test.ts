import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  cableName,
  defaultRouteInterface,
  describeNetwork,
  outerCommands,
  outerPreparation,
} from "./pod-network.ts";

describe("defaultRouteInterface()", () => {
  it("takes the default route with the lowest metric", () => {
    const table = [
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
      "eth1\t00000000\t0202000A\t0003\t0\t0\t200\t00000000\t0\t0\t0",
      "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
      "ens5\t00000000\t0102000A\t0003\t0\t0\t100\t00000000\t0\t0\t0",
      "",
    ].join("\n");
    assert.equal(defaultRouteInterface(table), "ens5");
    assert.equal(defaultRouteInterface(table.split("\n", 1).join("")), undefined);
  });
});

describe("outerCommands()", () => {
  it("can be run twice, and never take the pod's address", () => {
    const lines = outerCommands({
      podIp: "10.1.2.3",
      hostInterface: "eth0",
      cable: "kip-pod",
      mtu: 9001,
    });
    assert.doesNotMatch(lines.join("\n"), /\baddr/);
    for (const line of [...outerPreparation("kip-pod"), ...lines])
      assert.match(line, /replace|^link set/);
  });
});

describe("cableName()", () => {
  it("keeps to the kernel's 15 characters", () => {
    assert.equal(cableName("pod"), "kip-pod");
    assert.ok(cableName("a-long-name-").length <= 15);
  });
});

describe("describeNetwork()", () => {
  it("refuses an invalid address", () => {
    for (const address of ["", "10.0.0", "10.0.0.256", "fe80::1", "10.0.0.1; x"])
      assert.throws(() => describeNetwork("pod", address, { hostInterface: "lo" }), {
        code: "POD_NETWORK_INVALID",
      });
    assert.throws(() => describeNetwork("pod", "10.0.0.1", { hostInterface: "no-such0" }), {
      code: "POD_NETWORK_INVALID",
    });
  });
});
