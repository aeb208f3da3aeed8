import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { readInterfaces } from "./interfaces.ts";

const head = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
`;

describe("readInterfaces()", () => {
  it("gives the counters of all interfaces but loopback and the cell's own", () => {
    using folder = temporaryFolder();
    mkdirSync(`${folder.path}/7/net`, { recursive: true });
    const lines = [
      "    lo:  640       8    0    0    0     0          0         0      640       8    0    0    0     0       0          0",
      "  eth0:15240     120    1    2    0     0          0         0    20480     100    3    4    0     0       0          0",
      "kip-pod:  64       8    0    0    0     0          0         0      640       8    0    0    0     0       0          0",
      ' a"b:  640       8    0    0    0     0          0         0      640       8    0    0    0     0       0          0',
    ];
    writeFileSync(`${folder.path}/7/net/dev`, `${head}${lines.join("\n")}\n`);
    assert.deepEqual(readInterfaces(7, folder.path), [
      {
        name: "eth0",
        receivedBytes: 15_240,
        receivedPackets: 120,
        receivedErrors: 1,
        receivedDropped: 2,
        sentBytes: 20_480,
        sentPackets: 100,
        sentErrors: 3,
        sentDropped: 4,
      },
    ]);
  });

  it("gives none of a process that has ended, and at most 32", () => {
    using folder = temporaryFolder();
    assert.deepEqual(readInterfaces(1, folder.path), []);
    mkdirSync(`${folder.path}/1/net`, { recursive: true });
    const line = "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1";
    const many = Array.from({ length: 100 }, (_, index) => `dummy${index}: ${line}\n`);
    writeFileSync(`${folder.path}/1/net/dev`, `${head}${many.join("")}`);
    assert.equal(readInterfaces(1, folder.path).length, 32);
  });

  it("reads this machine's own format", () => {
    for (const { name } of readInterfaces(process.pid)) assert.notEqual(name, "lo");
  });
});
