import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import os from "node:os";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { LocalNetwork } from "../src/network/local-network.ts";
import { nameServerLimits } from "../src/network/name-server-limits.ts";
import { joinBridge, type BridgeGuest } from "./support/bridge-guest.ts";

const { burstPackets, connections } = nameServerLimits;

/** Sends this many packets as fast as it can. */
const flood = `
const [host, count] = process.argv.slice(1);
const socket = require("node:dgram").createSocket("udp4");
(async () => {
  for (let i = 0; i < Number(count); i++) await new Promise((done) => socket.send("?", 53, host, done));
  socket.close();
})();`;

/** Keeps this many connections open and prints how many there are. */
const connect = `
const [host, count] = process.argv.slice(1);
const net = require("node:net");
const attempts = Array.from({ length: Number(count) }, () => new Promise((done) => {
  const socket = net.connect(53, host, () => done(true)).on("error", () => done(false));
}));
Promise.all(attempts).then((all) => console.log(all.filter(Boolean).length));`;

const serve = `
require("node:net").createServer(() => {}).listen(53, process.argv[1], () => console.log("listening"));`;

/** Counts packets by sender after the limits. */
const counters = `
table ip seen {
  set senders { type ipv4_addr; flags dynamic; counter; }
  chain input {
    type filter hook input priority 100
    udp dport 53 update @senders { ip saddr counter }
  }
}`;

describe("nameServerRules()", { timeout: 120_000 }, () => {
  it("has one machine ask the name server no more than its share, and others as before", async () => {
    const network = new LocalNetwork({
      name: "kiptask",
      stateDir: os.tmpdir(),
      range: "198.18.228.0/22",
      internet: false,
      hostPorts: [],
      managementPorts: [6421],
      serviceRanges: [],
      logger: silentLogger,
    });
    await network.prepare();
    const { clusterDns } = network.plan;
    await using hostile = await joinBridge(network, 0);
    await using other = await joinBridge(network, 1);
    const run = async (guest: BridgeGuest, script: string, count: number): Promise<string> => {
      const child = guest.start(process.execPath, ["-e", script, clusterDns, String(count)]);
      const [text = ""] = (await Promise.race([
        once(child.stdout, "data"),
        once(child, "close"),
      ])) as unknown[];
      return String(text).trim();
    };
    const words = [`--net=${network.namespace.file}`, process.execPath, "-e", serve, clusterDns];
    const server = spawn("nsenter", words, { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(server.stdout, "data");
      await network.namespace.run("nft", ["-f", "-"], counters);
      await run(hostile, flood, 20 * burstPackets);
      await run(other, flood, 100);
      const seen = await network.namespace.run("nft", ["list", "set", "ip", "seen", "senders"]);
      const packets = (address: string): number =>
        Number(new RegExp(`${address} counter packets (\\d+)`).exec(seen.stdout)?.[1] ?? 0);
      assert.equal(packets(other.machineIp), 100);
      assert.ok(packets(hostile.machineIp) >= burstPackets);
      assert.ok(packets(hostile.machineIp) < 10 * burstPackets, seen.stdout);
      assert.equal(await run(hostile, connect, connections + 36), String(connections));
      assert.equal(await run(other, connect, 10), "10");
    } finally {
      server.kill("SIGKILL");
      await network.remove();
    }
  });
});
