import assert from "node:assert/strict";
import { once } from "node:events";
import os from "node:os";
import { after, before, describe, it } from "node:test";
import { CommandError, runCommand, silentLogger } from "@kip/base";
import { LocalNetwork, type LocalNetworkOptions } from "../src/network/local-network.ts";
import { hasUplinkProgram } from "../src/network/uplink.ts";
import {
  frame,
  ipv6Packet,
  joinBridge,
  udpDatagram,
  type BridgeGuest,
} from "./support/bridge-guest.ts";
import { internet, listen } from "./support/listeners.ts";
import { programFile } from "./support/program-file.ts";

const name = "kiptis6";
const options: LocalNetworkOptions = {
  name,
  stateDir: os.tmpdir(),
  range: "198.18.224.0/22",
  ipv6Range: "fd6b:6970:77::/64",
  internet: false,
  hostPorts: [],
  managementPorts: [6421],
  serviceRanges: ["10.118.0.0/16", "fd6b:6970:78::/112"],
  hostServices: true,
  logger: silentLogger,
};
const gatewayMac = "02:6b:69:70:00:02";
const udp = 17;

describe("what a machine may send by IPv6", { timeout: 120_000 }, () => {
  const network = new LocalNetwork(options);
  const ipv6 = network.plan.ipv6!;
  let cell: BridgeGuest;
  let other: BridgeGuest;

  before(async () => {
    await network.prepare();
    cell = await joinBridge(network, 3);
    other = await joinBridge(network, 4);
  });
  after(async () => {
    await cell[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    await network.remove();
  });

  interface Sent {
    readonly from?: string;
    readonly to?: string;
    readonly mac?: string;
    readonly toMac?: string;
    readonly protocol?: number;
    readonly payload?: Buffer;
  }
  /** A frame that contains a text, which is searched for behind the gateway. */
  const packet = (sent: Sent, text = "seen"): Buffer => {
    const { from = cell.ipv6.podIp, to = other.ipv6.podIp, protocol = udp } = sent;
    const payload = sent.payload ?? udpDatagram([1, 2], text);
    const { mac = cell.port.mac, toMac = gatewayMac } = sent;
    return frame(toMac, mac, 0x86dd, ipv6Packet(from, to, protocol, payload));
  };

  /** Whether the text arrives at the other machine. */
  async function arrives(...frames: readonly Buffer[]): Promise<boolean> {
    const receiver = await other.receive();
    // Sent last on the same path, where the gateway has decreased its hop limit.
    await cell.send(...frames, packet({}, "last"));
    const last = packet({ mac: gatewayMac, toMac: other.port.mac }, "last");
    last.writeUInt8(63, 14 + 7);
    const seen = await receiver.until(last);
    return seen.some((each) => each.readUInt16BE(12) === 0x86dd && each.includes("seen"));
  }

  it("is its own, from either of its addresses", async () => {
    for (const from of [cell.ipv6.machineIp, cell.ipv6.podIp])
      for (const to of [other.ipv6.machineIp, other.ipv6.podIp])
        assert.ok(await arrives(packet({ from, to })), `${from} to ${to}`);
  });

  const foreign: Readonly<Record<string, () => Buffer>> = {
    "another machine's address": () => packet({ from: ipv6.pod(9) }),
    "the other's own address": () => packet({ from: other.ipv6.machineIp }),
    "the host's address": () => packet({ from: ipv6.host }),
    "the gateway's address": () => packet({ from: ipv6.gateway }),
    "a link-local address": () => packet({ from: "fe80::6b:1" }),
    "no address": () => packet({ from: "::" }),
    "loopback's address": () => packet({ from: "::1" }),
    "an address of the internet": () => packet({ from: "2001:db8::1" }),
    "an IPv4 address in an IPv6 one": () => packet({ from: "::ffff:c612:e001" }),
    "another hardware address": () => packet({ mac: "02:6b:00:00:00:99" }),
    "a frame past the gateway": () => packet({ toMac: other.port.mac }),
    "a frame past the gateway to a link-local address": () =>
      packet({ toMac: other.port.mac, to: "fe80::1" }),
    "a multicast": () => packet({ toMac: "33:33:00:00:00:01", to: "ff02::1" }),
    "a multicast by way of the gateway": () => packet({ to: "ff02::1" }),
    "a broadcast": () => packet({ toMac: "ff:ff:ff:ff:ff:ff" }),
    "a datagram to another's agent": () =>
      packet({ to: other.ipv6.machineIp, payload: udpDatagram([1, 6421], "seen") }),
    "a datagram to another's agent behind a header of options": () =>
      packet({
        to: other.ipv6.machineIp,
        protocol: 60,
        payload: Buffer.concat([
          Buffer.from([udp, 0, 1, 4, 0, 0, 0, 0]),
          udpDatagram([1, 6421], "seen"),
        ]),
      }),
    "a solicitation of a neighbour": () => neighbour(135, 0),
    "an answer that it is the gateway": () => neighbour(136, 0x20),
    "an announcement as a router": () =>
      packet({
        toMac: "33:33:00:00:00:01",
        to: "ff02::1",
        protocol: 58,
        payload: Buffer.from("8600000040000708seen", "utf8"),
      }),
    "a VLAN tag": () =>
      frame(
        gatewayMac,
        cell.port.mac,
        0x8100,
        Buffer.concat([
          Buffer.from([0, 1, 0x86, 0xdd]),
          ipv6Packet(cell.ipv6.podIp, other.ipv6.podIp, udp, udpDatagram([1, 2], "seen")),
        ]),
      ),
  };
  const neighbour = (type: number, flags: number): Buffer => {
    const head = Buffer.from([type, 0, 0, 0, flags, 0, 0, 0]);
    const text = Buffer.from("seen".padEnd(24, "."));
    return packet({
      toMac: other.port.mac,
      to: other.ipv6.podIp,
      protocol: 58,
      payload: Buffer.concat([head, text]),
    });
  };

  for (const [what, make] of Object.entries(foreign)) {
    it(`is not ${what}`, async () => {
      assert.ok(!(await arrives(make())));
    });
  }

  it("is not a datagram to another's agent in two fragments", async () => {
    const whole = udpDatagram([1, 6421], "seen".padEnd(40, "."));
    const fragment = (offset: number, more: number, data: Buffer): Buffer => {
      const head = Buffer.from([udp, 0, 0, 0, 0, 0, 0, 7]);
      head.writeUInt16BE((offset & 0xfff8) | more, 2);
      return packet({
        to: other.ipv6.machineIp,
        protocol: 44,
        payload: Buffer.concat([head, data]),
      });
    };
    const parts = [fragment(0, 1, whole.subarray(0, 8)), fragment(8, 0, whole.subarray(8))];
    assert.ok(!(await arrives(...parts)));
    assert.ok(!(await arrives(...parts.toReversed())));
  });

  it("is nothing after its port is closed", async () => {
    await network.removeTap(cell.port.device);
    const { stdout } = await network.namespace.run("nft", [
      "list",
      "set",
      "bridge",
      "kip",
      "senders6",
    ]);
    assert.doesNotMatch(stdout, new RegExp(cell.port.mac));
    const { stdout: routes } = await network.namespace.run("ip", ["-6", "route"]);
    assert.ok(!routes.includes(cell.ipv6.podIp) && routes.includes(other.ipv6.podIp));
    await network.removeTap(cell.port.device);
    await cell[Symbol.asyncDispose]();
    cell = await joinBridge(network, 3);
  });
});

describe("what a machine reaches by IPv6", { timeout: 120_000 }, () => {
  it("is other pods on every port, other machines but for their agents, and the host's ports that were named", async () => {
    await using open = await listen("::");
    await using shut = await listen("::");
    const network = new LocalNetwork({ ...options, hostPorts: [open.port] });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    await using other = await joinBridge(network, 1);
    const ipv6 = network.plan.ipv6!;
    try {
      for (const [port, address, isOpen] of [
        [6421, other.ipv6.podIp, true],
        [8080, other.ipv6.podIp, true],
        [8080, other.ipv6.machineIp, true],
        [6421, other.ipv6.machineIp, false],
      ] as const) {
        const server = other.start("perl", [programFile("serve-hello.pl"), String(port)]);
        await once(server.stdout, "data");
        const where = `[${address}]:${port}`;
        if (isOpen) assert.equal(await cell.fetch(`http://${where}/`), "hello", where);
        else await cell.reachesNone([where]);
        const words = ["--silent", "--max-time", "5", "--noproxy", "*", `http://${where}/`];
        assert.equal((await runCommand("curl", words)).stdout, "hello", `${where} from the host`);
        server.kill("SIGKILL");
        await once(server, "close");
      }
      for (const source of [cell.ipv6.machineIp, cell.ipv6.podIp]) {
        const url = `http://[${ipv6.host}]:${open.port}`;
        assert.equal(await cell.fetch(url, "--interface", source), "hello");
      }
      await cell.reachesNone([`[${ipv6.host}]:${shut.port}`, `[${ipv6.gateway}]:${open.port}`]);
    } finally {
      await network.remove();
    }
  });

  it("is neither a Service, nor an address of no machine, nor the outside where there is none: at once", async () => {
    const network = new LocalNetwork(options);
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    const ipv6 = network.plan.ipv6!;
    try {
      for (const address of ["fd6b:6970:78::50", ipv6.pod(77), "2001:db8::1", "fd00:ec2::254"]) {
        const started = performance.now();
        // curl: 7 is a connection that failed, 28 the time limit
        await assert.rejects(cell.fetch(`http://[${address}]/`), (error) => {
          return CommandError.is(error) && error.exitCode === 7;
        });
        assert.ok(performance.now() - started < 15_000, address);
      }
    } finally {
      await network.remove();
    }
  });

  it("is the internet, and not the host by any of its addresses, nor IPv4 by way of IPv6", async (context) => {
    if (!(await hasUplinkProgram())) return context.skip("slirp4netns is not installed");
    await using outside = await internet(`${name}o`, []);
    await runCommand("ip", ["addr", "add", "2001:db8:77::253/128", "dev", `${name}o`, "nodad"]);
    await runCommand("ip", ["route", "add", "2001:db8:77::/64", "dev", `${name}o`]);
    const inside = ["-6", "-batch", "-"];
    const lines = ["2001:db8:77::77", "fd00:ec2::254"].map(
      (a) => `addr add ${a}/128 dev eth0 nodad\n`,
    );
    await outside.run("ip", inside, `${lines.join("")}route add ::/0 dev eth0\n`);
    await runCommand("ip", ["route", "add", "fd00:ec2::254/128", "dev", `${name}o`]);
    await using host = await listen("::");
    const network = new LocalNetwork({ ...options, internet: true });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    try {
      for (const source of [cell.ipv6.machineIp, cell.ipv6.podIp]) {
        const url = `http://[2001:db8:77::77]:${outside.port}`;
        assert.equal(await cell.fetch(url, "--interface", source), "hello");
      }
      const closed = ["fd00:ec2::254"];
      await cell.reachesNone(closed.map((address) => `[${address}]:${outside.port}`));
      // An operating system sends no such packets, but a raw socket does.
      for (const address of ["::ffff:198.51.100.77", "::198.51.100.77", "64:ff9b::a9fe:a9fe"]) {
        const words = ["get", "element", "ip6", "kip", "closed", `{ ${address} }`];
        await network.namespace.run("nft", words);
      }
      const own = ["2001:db8:77::253", "fd00::2", "fd00::3", "::1", "::ffff:127.0.0.1", "fe80::2"];
      const all = [...own, network.plan.ipv6!.gateway];
      await cell.reachesNone(all.map((address) => `[${address}]:${host.port}`));
    } finally {
      await network.remove();
    }
    return undefined;
  });
});
