import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { localAddresses } from "./local-addresses.ts";

const usual = [
  { priority: 0, src: "all", table: "local" },
  { priority: 32_766, src: "all", table: "main" },
  { priority: 32_767, src: "all", table: "default" },
];

describe("localAddresses()", () => {
  it("has the addresses of all devices, and prefixes", () => {
    const routes = [
      { type: "local", dst: "127.0.0.0/8", dev: "lo", table: "local" },
      { type: "local", dst: "172.17.0.1", dev: "docker0", table: "local", flags: ["linkdown"] },
      { type: "local", dst: "10.53.53.53", dev: "lo", table: "local" },
      { type: "local", dst: "10.53.53.53", dev: "eth0", table: "local" },
      { type: "local", dst: "203.0.113.0/24", dev: "lo" },
    ];
    assert.deepEqual(localAddresses(routes, usual), [
      "10.53.53.53",
      "127.0.0.0/8",
      "172.17.0.1",
      "203.0.113.0/24",
    ]);
  });

  it("leaves out tables that only marked or received packets are looked up in", () => {
    const rules = [
      { src: "all", fwmark: "0x1", table: "100" },
      { src: "all", iif: "eth0", table: "101" },
      { src: "all", iif: "lo", table: "102" },
      ...usual,
    ];
    const routes = [
      { dst: "default", dev: "lo", table: "100" },
      { dst: "default", dev: "lo", table: "101" },
      { dst: "192.0.2.0/24", dev: "lo", table: "102" },
      { dst: "198.51.100.1", dev: "lo", table: "local" },
    ];
    assert.deepEqual(localAddresses(routes, rules), ["192.0.2.0/24", "198.51.100.1"]);
  });

  it("has a table that marked packets are not the only ones to be looked up in", () => {
    const rules = [
      { src: "all", fwmark: "0x1", table: "100" },
      { src: "10.0.0.0", srclen: 8, table: "100" },
      ...usual,
    ];
    assert.deepEqual(localAddresses([{ dst: "default", table: "100" }], rules), ["0.0.0.0/0"]);
  });

  it("has a table that no rule names: a VRF has one", () => {
    assert.deepEqual(localAddresses([{ dst: "10.1.1.1", table: "10" }], usual), ["10.1.1.1"]);
  });
});
