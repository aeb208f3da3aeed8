import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import os from "node:os";
import { after, before, describe, it } from "node:test";
import { createLogger, silentLogger, signalProcess, systemClock, CommandError } from "@kip/base";
import { eventually } from "@kip/testing";
import { LocalNetwork, type LocalNetworkOptions } from "../src/network/local-network.ts";
import { findProcesses } from "../src/host/processes.ts";
import { NetworkWatch, type NetworkWatchOptions } from "../src/network/network-watch.ts";
import { hasUplinkProgram } from "../src/network/uplink.ts";
import { hostAddresses, internet, listen } from "./support/listeners.ts";
import {
  arpPacket,
  frame,
  ipPacket,
  joinBridge,
  tcpPacket,
  udpPacket,
  type BridgeGuest,
} from "./support/bridge-guest.ts";
import { programFile } from "./support/program-file.ts";

const name = "kiptiso";
const options: LocalNetworkOptions = {
  name,
  stateDir: os.tmpdir(),
  range: "198.18.120.0/21",
  internet: "auto",
  hostPorts: [],
  managementPorts: [6421],
  serviceRanges: ["10.96.0.0/16"],
  logger: silentLogger,
};
const everyone = "ff:ff:ff:ff:ff:ff";
const syn = 2;

/** How many fragments this computer has been given to put together. */
async function fragmentsHere(): Promise<number> {
  const lines = (await readFile("/proc/net/snmp", "utf8")).split("\n");
  const [names = [], values = []] = lines
    .filter((line) => line.startsWith("Ip:"))
    .map((line) => line.split(" "));
  return Number(values[names.indexOf("ReasmReqds")]);
}

describe("what a machine may send", { timeout: 120_000 }, () => {
  const network = new LocalNetwork(options);
  const { plan } = network;
  let cell: BridgeGuest;
  let other: BridgeGuest;
  let marker: Buffer;

  before(async () => {
    await network.prepare();
    cell = await joinBridge(network, 3);
    other = await joinBridge(network, 4);
    marker = from(udpPacket(cell.podIp, other.podIp, [1, 2], "marker"));
  });
  after(async () => {
    await cell[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    await network.remove();
  });

  const from = (packet: Buffer, to = other.port.mac): Buffer =>
    frame(to, cell.port.mac, 0x0800, packet);

  /** The frames that reach the other machine, without those of its own system. */
  async function arriving(...frames: readonly Buffer[]): Promise<readonly Buffer[]> {
    const receiver = await other.receive();
    await cell.send(...frames, marker);
    const seen = await receiver.until(marker);
    return frames.filter((sent) => seen.some((each) => each.equals(sent)));
  }

  it("is its own, from either of its addresses", async () => {
    const frames = [
      from(udpPacket(cell.machineIp, other.machineIp, [1, 2])),
      from(udpPacket(cell.podIp, other.machineIp, [1, 2])),
      from(tcpPacket(cell.podIp, other.podIp, [1, 6421], syn)),
      from(ipPacket(cell.podIp, other.podIp, 132, Buffer.alloc(20))), // SCTP
      ...[cell.machineIp, cell.podIp].map((ip) =>
        frame(
          everyone,
          cell.port.mac,
          0x0806,
          arpPacket("request", { mac: cell.port.mac, ip }, { mac: "0:0:0:0:0:0", ip: other.podIp }),
        ),
      ),
    ];
    assert.deepEqual(await arriving(...frames), frames);
  });

  const foreign: Readonly<Record<string, () => Buffer>> = {
    "another machine's address": () => from(udpPacket(other.podIp, other.machineIp, [1, 2])),
    "the host's address": () => from(udpPacket(plan.host, other.machineIp, [1, 2])),
    "an address of the internet": () => from(udpPacket("192.0.2.9", other.podIp, [53, 2])),
    "another hardware address": () =>
      frame(
        other.port.mac,
        "02:6b:00:00:00:99",
        0x0800,
        udpPacket(cell.podIp, other.podIp, [1, 2]),
      ),
    "the gateway's hardware address": () =>
      frame(
        other.port.mac,
        "02:6b:69:70:00:02",
        0x0800,
        udpPacket(cell.podIp, other.podIp, [1, 2]),
      ),
    "an answer that it is the gateway": () => arp("reply", cell.port.mac, plan.gateway),
    "a question as another machine": () => arp("request", cell.port.mac, plan.machine(9)),
    "its address at a foreign hardware address": () =>
      arp("reply", "02:6b:00:00:00:99", cell.podIp),
    IPv6: () =>
      frame(other.port.mac, cell.port.mac, 0x86dd, Buffer.from(`6${"0".repeat(79)}`, "hex")),
    "a VLAN tag": () => frame(other.port.mac, cell.port.mac, 0x8100, tagged()),
    "two VLAN tags": () =>
      frame(
        other.port.mac,
        cell.port.mac,
        0x88a8,
        Buffer.concat([Buffer.from([0, 1, 0x81, 0]), tagged()]),
      ),
    "spanning tree": () =>
      frame("01:80:c2:00:00:00", cell.port.mac, 38, Buffer.from("424203".padEnd(76, "0"), "hex")),
    LLDP: () => frame("01:80:c2:00:00:0e", cell.port.mac, 0x88cc, Buffer.alloc(46)),
    "a broadcast": () => from(udpPacket(cell.podIp, "255.255.255.255", [1, 2]), everyone),
    "a multicast": () =>
      from(udpPacket(cell.podIp, "224.0.0.251", [5353, 5353]), "01:00:5e:00:00:fb"),
    "an offer of an address (DHCP)": () =>
      from(udpPacket(cell.machineIp, other.machineIp, [67, 68])),
    "a connection to another's agent": () =>
      from(tcpPacket(cell.podIp, other.machineIp, [1, 6421], syn)),
    "a datagram to another's agent": () => from(udpPacket(cell.podIp, other.machineIp, [1, 6421])),
  };

  const arp = (operation: "request" | "reply", mac: string, ip: string): Buffer =>
    frame(
      other.port.mac,
      cell.port.mac,
      0x0806,
      arpPacket(operation, { mac, ip }, { mac: other.port.mac, ip: other.podIp }),
    );
  const tagged = (): Buffer =>
    Buffer.concat([Buffer.from([0, 1, 8, 0]), udpPacket(cell.podIp, other.podIp, [1, 2])]);

  for (const [what, make] of Object.entries(foreign)) {
    it(`is not ${what}`, async () => {
      assert.deepEqual(await arriving(make()), []);
    });
  }

  it("CVE-2020-8558: is nothing for what another has on its loopback", async () => {
    const frames = ["127.0.0.1", "127.0.0.53", "127.255.255.254"].flatMap((address) => [
      from(tcpPacket(cell.podIp, address, [1, 8080], syn)),
      from(udpPacket(cell.podIp, address, [1, 53])),
    ]);
    assert.deepEqual(await arriving(...frames), []);
  });

  it("does not reach a machine that it is not meant for", async () => {
    // The bridge does not know this MAC address, so it sends the frame to all ports.
    const stray = from(udpPacket(cell.podIp, plan.pod(9), [1, 2]), "02:6b:00:00:00:77");
    assert.deepEqual(await arriving(stray), []);
  });

  it("does not come back by way of the gateway", async () => {
    const gatewayMac = "02:6b:69:70:00:02";
    const receiver = await other.receive();
    const detour = tcpPacket(cell.podIp, other.machineIp, [7777, 6421], syn);
    await cell.send(from(detour, gatewayMac), marker);
    const seen = await receiver.until(marker);
    assert.ok(!seen.some((each) => each.includes(Buffer.from([7777 >> 8, 7777 & 255]))));
  });

  it("is nothing before its port is opened, and nothing after it is closed", async () => {
    const receiver = await other.receive();
    const late = from(udpPacket(cell.podIp, other.podIp, [1, 2], "late"));
    const last = frame(
      cell.port.mac,
      other.port.mac,
      0x0800,
      udpPacket(other.podIp, cell.podIp, [1, 2]),
    );
    await using third = await joinBridge(network, 5);
    const end = frame(
      other.port.mac,
      third.port.mac,
      0x0800,
      udpPacket(third.podIp, other.podIp, [1, 2]),
    );
    // Its device exists again, like a tap with the same name, but its entry does not.
    await network.removeTap(cell.port.device);
    await network.namespace.run("ip", [
      "link",
      "add",
      cell.port.device,
      "type",
      "veth",
      "peer",
      "name",
      "eth0",
      "netns",
      cell.namespace.file,
    ]);
    await network.namespace.run("ip", ["link", "set", cell.port.device, "master", "cells", "up"]);
    await cell.namespace.run("ip", ["link", "set", "eth0", "address", cell.port.mac, "up"]);
    await cell.send(late);
    await other.send(last);
    await third.send(end);
    assert.ok(!(await receiver.until(end)).some((each) => each.equals(late)));
    await cell[Symbol.asyncDispose]();
    cell = await joinBridge(network, 3);
  });

  it("goes on while the rules are written again", async () => {
    await network.prepare();
    await new LocalNetwork({ ...options, hostPorts: [1] }).prepare();
    assert.deepEqual(await arriving(from(udpPacket(cell.podIp, other.podIp, [1, 2]))), [
      from(udpPacket(cell.podIp, other.podIp, [1, 2])),
    ]);
  });
});

describe("what a machine reaches", { timeout: 120_000 }, () => {
  it("is the host's ports that were named, and the host where it has asked", async () => {
    await using open = await listen("0.0.0.0");
    await using shut = await listen("0.0.0.0");
    const network = new LocalNetwork({ ...options, internet: false, hostPorts: [open.port] });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    const { host, gateway } = network.plan;
    const asker = createSocket("udp4").bind(0, host);
    try {
      await once(asker, "listening");
      for (const source of [cell.machineIp, cell.podIp])
        assert.equal(
          await cell.fetch(`http://${host}:${open.port}`, "--interface", source),
          "hello",
        );
      await cell.reachesNone([`${host}:${shut.port}`, `${gateway}:${open.port}`]);
      // Unsolicited packets do not arrive, but answers do, also through the agent's port.
      const received: string[] = [];
      asker.on("message", (text, { port }) => received.push(`${text.toString()} from ${port}`));
      const to = [host, String(asker.address().port)];
      const answerer = cell.start("perl", [programFile("answer-udp.pl"), "6421", ...to]);
      await once(answerer.stdout, "data");
      asker.send("question", 6421, cell.machineIp);
      await once(asker, "message");
      assert.deepEqual(received, ["answer from 6421"]);
    } finally {
      asker.close();
      await network.remove();
    }
  });

  it("is the host with an answer in fragments, and with no fragment unasked", async () => {
    await using open = await listen("0.0.0.0");
    const network = new LocalNetwork({ ...options, internet: false, hostPorts: [open.port] });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    await using other = await joinBridge(network, 1);
    const { host } = network.plan;
    const hostMac = (await readFile(`/sys/class/net/${name}0/address`, "utf8")).trim();
    /** How many fragments have come to the host with one of a guest, which has no ports. */
    const fragmentsWith = async (guest: BridgeGuest): Promise<number> => {
      const before = await fragmentsHere();
      const last = ipPacket(guest.podIp, host, 17, Buffer.alloc(8), 185);
      await guest.send(frame(hostMac, guest.port.mac, 0x0800, last));
      await guest.fetch(`http://${host}:${open.port}`, "--interface", guest.podIp);
      return (await fragmentsHere()) - before;
    };
    const asker = createSocket("udp4").bind(0, host);
    try {
      await once(asker, "listening");
      const to = [host, String(asker.address().port), cell.podIp, "4000"];
      const answerer = cell.start("perl", [programFile("answer-udp.pl"), "8080", ...to]);
      await once(answerer.stdout, "data");
      asker.send("question", 8080, cell.podIp);
      const [answer] = (await once(asker, "message", { signal: AbortSignal.timeout(5000) })) as [
        Buffer,
      ];
      assert.equal(answer.length, 4000);
      assert.equal(await fragmentsWith(cell), 1);
      assert.equal(await fragmentsWith(other), 0);
    } finally {
      asker.close();
      await network.remove();
    }
  });

  it("is other pods on every port, and other machines but for their agents", async () => {
    const network = new LocalNetwork({ ...options, internet: false });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    await using other = await joinBridge(network, 1);
    try {
      for (const [port, address, isOpen] of [
        [6421, other.podIp, true],
        [8080, other.podIp, true],
        [8080, other.machineIp, true],
        [6421, other.machineIp, false],
      ] as const) {
        const server = other.start("perl", [programFile("serve-hello.pl"), String(port)]);
        await once(server.stdout, "data");
        const where = `${address}:${port}`;
        if (isOpen) assert.equal(await cell.fetch(`http://${where}/`), "hello", where);
        else await cell.reachesNone([where]);
        const fromHost = await fetch(`http://${where}/`);
        assert.equal(await fromHost.text(), "hello", `${where} from the host`);
        server.kill("SIGKILL");
        await once(server, "close");
      }
    } finally {
      await network.remove();
    }
  });

  it("is the internet", async (context) => {
    if (!(await hasUplinkProgram())) return context.skip("slirp4netns is not installed");
    await using outside = await internet(`${name}o`, ["198.51.100.77"]);
    const network = new LocalNetwork({ ...options, internet: true });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    try {
      for (const source of [cell.machineIp, cell.podIp]) {
        const url = `http://198.51.100.77:${outside.port}`;
        assert.equal(await cell.fetch(url, "--interface", source), "hello");
      }
    } finally {
      await network.remove();
    }
    return undefined;
  });

  it("node impersonation: is neither what is link-local nor the host by any address that its kernel calls local", async (context) => {
    if (!(await hasUplinkProgram())) return context.skip("slirp4netns is not installed");
    const closed = ["169.254.77.77", "168.63.129.16"];
    await using outside = await internet(`${name}o`, ["198.51.100.77", ...closed]);
    await using host = await listen("0.0.0.0");
    await using device = await hostAddresses(`${name}b`);
    const network = new LocalNetwork({ ...options, internet: true });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    const watch = new NetworkWatch(watchOptions(network));
    const { plan } = network;
    const url = `http://198.51.100.77:${outside.port}`;
    try {
      assert.equal(await cell.fetch(url), "hello");
      await cell.reachesNone(closed.map((address) => `${address}:${outside.port}`));
      const slirp = plan.uplinkDns.replace(/3$/, "2");
      const ofHost = [...device.addresses, plan.gateway, slirp, plan.uplinkDns];
      await cell.reachesNone(ofHost.map((address) => `${address}:${host.port}`));
      // An address that the host gets while machines are running.
      await watch.start();
      await device.add("198.51.100.78/32");
      await device.addLocalRoute("198.51.100.128/28");
      await eventually(async () => {
        const { stdout } = await network.namespace.run("nft", [
          "list",
          "set",
          "ip",
          "kip",
          "closed",
        ]);
        return ["198.51.100.78", "198.51.100.128/28"].every((each) => stdout.includes(each));
      });
      const late = ["198.51.100.78", "198.51.100.129"];
      await cell.reachesNone(late.map((address) => `${address}:${host.port}`));
      assert.equal(await cell.fetch(url), "hello");
    } finally {
      await watch.stop();
      await network.remove();
    }
    return undefined;
  });

  it("is the internet again after slirp4netns has ended", async (context) => {
    if (!(await hasUplinkProgram())) return context.skip("slirp4netns is not installed");
    await using outside = await internet(`${name}o`, ["198.51.100.77"]);
    const network = new LocalNetwork({ ...options, internet: true });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    const lines: string[] = [];
    const logger = createLogger({ write: (line) => void lines.push(line) });
    const watch = new NetworkWatch({ ...watchOptions(network), logger });
    const url = `http://198.51.100.77:${outside.port}`;
    try {
      await watch.start();
      assert.equal(await cell.fetch(url), "hello");
      for (let nth = 1; nth <= 2; nth++) {
        const before = await findProcesses(network.namespace.file);
        assert.equal(before.length, 1);
        for (const pid of before) signalProcess(pid, "SIGKILL");
        await eventually(() => Promise.resolve(lines.length === nth));
        assert.equal(await cell.fetch(url), "hello");
        const after = await findProcesses(network.namespace.file);
        assert.equal(after.length, 1);
        assert.notDeepEqual(after, before);
      }
      assert.match(lines[0] ?? "", /slirp4netns had ended and was started again/);
    } finally {
      await watch.stop();
      await network.remove();
      assert.deepEqual(await findProcesses(network.namespace.file), []);
    }
    return undefined;
  });

  it("is the cluster's name server at its Service, and nothing else in the namespace", async () => {
    const dnsService = "10.96.0.10";
    const network = new LocalNetwork({ ...options, internet: false, dnsService });
    await network.prepare();
    await using cell = await joinBridge(network, 0);
    const { host, clusterDns } = network.plan;
    try {
      for (const port of [53, 8080]) {
        const words = [`--net=${network.namespace.file}`, "perl", programFile("serve-hello.pl")];
        const server = spawn("nsenter", [...words, `${port}`], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        await once(server.stdout, "data");
        const places = [dnsService, clusterDns].map((address) => `${address}:${port}`);
        if (port === 53)
          for (const place of places) assert.equal(await cell.fetch(`http://${place}/`), "hello");
        else await cell.reachesNone(places);
        server.kill("SIGKILL");
        await once(server, "close");
      }
      for (const source of [cell.machineIp, cell.podIp])
        for (const address of [dnsService, clusterDns]) {
          const words = [programFile("answer-udp.pl"), "53", host, "9", clusterDns];
          const server = spawn("nsenter", [`--net=${network.namespace.file}`, "perl", ...words], {
            stdio: ["ignore", "pipe", "inherit"],
          });
          const closed = once(server, "close");
          await once(server.stdout, "data");
          assert.equal(await cell.askByUdp(address, 53, source), "an answer");
          await closed;
        }
    } finally {
      await network.remove();
    }
  });

  for (const isLedOut of [true, false]) {
    const what = isLedOut ? "with" : "without";
    it(`is no Service: packets for one stay in the namespace, ${what} internet`, async (context) => {
      if (isLedOut && !(await hasUplinkProgram()))
        return context.skip("slirp4netns is not installed");
      const services = ["10.96.0.1", "10.96.255.254"];
      await using outside = await internet(`${name}o`, [...services, "10.97.0.1"]);
      const network = new LocalNetwork({ ...options, internet: isLedOut });
      await network.prepare();
      await using cell = await joinBridge(network, 0);
      try {
        // Many at once: each is refused, and none waits for its time limit.
        for (const source of [cell.machineIp, cell.podIp]) {
          const attempts = Array.from({ length: 20 }, (_, index) =>
            assert.rejects(
              cell.fetch(`http://${services[index % 2]}:${outside.port}`, "--interface", source),
              // curl: 7 is a connection that failed, 28 the time limit
              (error) => hasExitCode(error, 7),
            ),
          );
          await Promise.all(attempts);
          assert.equal(await cell.askByUdp("10.96.0.10", 53, source), "No route to host");
        }
        if (isLedOut) assert.equal(await cell.fetch(`http://10.97.0.1:${outside.port}`), "hello");
        assert.deepEqual(await outside.received("10.96.0.0/16"), 0);
      } finally {
        await network.remove();
      }
      return undefined;
    });
  }
});

function watchOptions(network: LocalNetwork): NetworkWatchOptions {
  return { network, lock: (work) => work(), clock: systemClock, logger: silentLogger };
}

function hasExitCode(error: unknown, code: number): boolean {
  return CommandError.is(error) && error.exitCode === code;
}
