import assert from "node:assert/strict";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { LocalNetwork } from "../../src/network/local-network.ts";
import { gatewayMac } from "../../src/network/ipv6-setup.ts";
import { machinePort, type MachinePort } from "../../src/network/machine-port.ts";
import { addressNumber, canonicalAddress } from "@kip/network-view";
import { namespaceOf, type Namespace } from "../../src/network/namespace.ts";
import { programFile } from "./program-file.ts";

/** Replaces a machine: a namespace with a veth end on the bridge in place of a tap. */
export interface BridgeGuest extends AsyncDisposable {
  readonly port: MachinePort;
  /** Its own address and its pod's. */
  readonly machineIp: string;
  readonly podIp: string;
  /** The same for IPv6. Empty if the network has none. */
  readonly ipv6: { readonly machineIp: string; readonly podIp: string };
  readonly namespace: Namespace;
  /** Sends the given frames unchanged, one after the other. */
  send(...frames: readonly Buffer[]): Promise<void>;
  /** Collects arriving frames from the time it resolves. `until` resolves with them once the given frame has arrived. */
  receive(): Promise<{ until(last: Buffer): Promise<readonly Buffer[]> }>;
  /** Starts a program. It ends with the guest at the latest. */
  start(program: string, args: readonly string[]): ChildProcessByStdio<null, Readable, null>;
  /** Fetches a URL with curl. */
  fetch(url: string, ...options: readonly string[]): Promise<string>;
  /** The error that a datagram causes within five seconds, or "no answer". */
  askByUdp(address: string, port: number, source: string): Promise<string>;
  /** Fails if something answers at one of the addresses (with their ports) within a second. */
  reachesNone(places: readonly string[]): Promise<void>;
}

/** Adds a guest at a machine's port. */
export async function joinBridge(network: LocalNetwork, slot: number): Promise<BridgeGuest> {
  const port = machinePort(network.plan, slot);
  const { device, mac } = port;
  const namespace = namespaceOf(`${network.namespace.file.split("/")[3] ?? ""}-${device}`);
  await network.addTap(device);
  await namespace.remove();
  await namespace.create();
  const cable = ["add", device, "type", "veth", "peer", "name", "eth0", "netns", namespace.file];
  const inside = network.namespace;
  await inside.run("ip", ["link", "delete", device]);
  await inside.run("ip", ["link", ...cable]);
  await inside.run("ip", ["link", "set", device, "master", "cells", "up"]);
  const [machineIp = "", podIp = ""] = port.addresses;
  const lines = [
    `link set eth0 address ${mac} up`,
    `addr add ${machineIp}/${network.plan.prefixLength} dev eth0`,
    `addr add ${podIp}/32 dev eth0`,
    `route add default via ${network.plan.gateway}`,
    ...ipv6Lines(network, port),
  ];
  await namespace.run("ip", ["-batch", "-"], lines.join("\n"));
  const [machineIpv6 = "", podIpv6 = ""] = port.ipv6Addresses;
  const index = async (): Promise<string> =>
    (await namespace.run("ip", ["-o", "link", "show", "eth0"])).stdout.split(":")[0] ?? "";
  const children = new Set<ChildProcessByStdio<null, Readable, null>>();
  const start: BridgeGuest["start"] = (program, args) => {
    const child = spawn("nsenter", [`--net=${namespace.file}`, program, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.add(child);
    return child;
  };
  return {
    port,
    machineIp,
    podIp,
    ipv6: { machineIp: machineIpv6, podIp: podIpv6 },
    namespace,
    send: async (...frames) => {
      const input = frames.map((frame) => `${frame.toString("hex")}\n`).join("");
      await namespace.run("perl", [programFile("send-frames.pl"), await index()], input);
    },
    start,
    receive: async () => {
      const child = start("perl", [programFile("receive-frames.pl"), await index()]);
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
      await lines.next();
      return {
        until: async (last) => {
          const seen: Buffer[] = [];
          try {
            for (;;) {
              const { value, done } = await lines.next();
              if (done === true) throw new Error("The receiver ended");
              if (value === last.toString("hex")) return seen;
              seen.push(Buffer.from(value, "hex"));
            }
          } finally {
            child.kill("SIGKILL");
            if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
          }
        },
      };
    },
    fetch: async (url, ...options) => {
      const args = ["--silent", "--max-time", "20", "--noproxy", "*", ...options, url];
      return (await namespace.run("curl", args)).stdout;
    },
    askByUdp: async (address, port, source) => {
      const question = [programFile("ask-udp.pl"), address, String(port), source];
      return (await namespace.run("perl", question)).stdout;
    },
    reachesNone: async (places) => {
      const curl = ["--silent", "--max-time", "1", "--noproxy", "*"];
      const answers = await Promise.all(
        places.map((place) =>
          namespace.run("curl", [...curl, `http://${place}/`]).then(
            () => place,
            () => undefined,
          ),
        ),
      );
      assert.deepEqual(answers.filter(Boolean), [], "reached");
    },
    [Symbol.asyncDispose]: async () => {
      for (const child of children) child.kill("SIGKILL");
      await network.removeTap(device);
      await namespace.remove();
    },
  };
}

/** The same configuration as by a cell's agent. */
function ipv6Lines({ plan }: LocalNetwork, { ipv6Addresses }: MachinePort): readonly string[] {
  if (!plan.ipv6) return [];
  const { gateway } = plan.ipv6;
  return [
    ...ipv6Addresses.map((address) => `addr add ${address}/128 dev eth0 nodad`),
    `neighbour replace ${gateway} lladdr ${gatewayMac} dev eth0 nud permanent`,
    `route replace ${gateway}/128 dev eth0`,
    `route replace ::/0 via ${gateway} dev eth0`,
  ];
}

const bytes = (address: string): Buffer =>
  Buffer.from(
    address.includes(":")
      ? address.split(":").map((each) => Number.parseInt(each, 16))
      : address.split(".").map(Number),
  );

/** An IPv6 packet. `protocol` is its next header. */
export function ipv6Packet(from: string, to: string, protocol: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt8(0x60, 0);
  header.writeUInt16BE(payload.length, 4);
  header.writeUInt8(protocol, 6);
  header.writeUInt8(64, 7);
  const addresses = [from, to].map((address) =>
    Buffer.from(
      addressNumber(canonicalAddress(address) ?? "")
        .toString(16)
        .padStart(32, "0"),
      "hex",
    ),
  );
  return Buffer.concat([header, ...addresses, payload]);
}

/** A UDP datagram without a checksum. */
export function udpDatagram(
  [source, destination]: readonly [source: number, destination: number],
  text: string,
): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt16BE(source, 0);
  header.writeUInt16BE(destination, 2);
  header.writeUInt16BE(8 + text.length, 4);
  return Buffer.concat([header, Buffer.from(text)]);
}

/** An Ethernet frame without padding. No wire needs it here, and the bridge may remove it. */
export function frame(to: string, from: string, type: number, payload: Buffer): Buffer {
  return Buffer.concat([bytes(to), bytes(from), Buffer.from([type >> 8, type & 255]), payload]);
}

/** An IPv4 packet that contains UDP. */
export function udpPacket(
  from: string,
  to: string,
  ports: readonly [source: number, destination: number],
  text = "",
): Buffer {
  const data = Buffer.from(text);
  const udp = Buffer.alloc(8);
  udp.writeUInt16BE(ports[0], 0);
  udp.writeUInt16BE(ports[1], 2);
  udp.writeUInt16BE(8 + data.length, 4);
  return ipPacket(from, to, 17, Buffer.concat([udp, data]));
}

/** A TCP segment without data. */
export function tcpPacket(
  from: string,
  to: string,
  ports: readonly [source: number, destination: number],
  flags: number,
): Buffer {
  const tcp = Buffer.alloc(20);
  tcp.writeUInt16BE(ports[0], 0);
  tcp.writeUInt16BE(ports[1], 2);
  tcp.writeUInt8(0x50, 12);
  tcp.writeUInt8(flags, 13);
  tcp.writeUInt16BE(1024, 14);
  return ipPacket(from, to, 6, tcp);
}

/** An IPv4 packet. `fragment` is the header's field with flags and offset. */
export function ipPacket(
  from: string,
  to: string,
  protocol: number,
  payload: Buffer,
  fragment = 0,
): Buffer {
  const header = Buffer.alloc(20);
  header.writeUInt8(0x45, 0);
  header.writeUInt16BE(20 + payload.length, 2);
  header.writeUInt16BE(fragment, 6);
  header.writeUInt8(64, 8);
  header.writeUInt8(protocol, 9);
  bytes(from).copy(header, 12);
  bytes(to).copy(header, 16);
  let sum = 0;
  for (let at = 0; at < 20; at += 2) sum += header.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  header.writeUInt16BE(~sum & 0xffff, 10);
  return Buffer.concat([header, payload]);
}

/** An ARP packet. */
export function arpPacket(
  operation: "request" | "reply",
  sender: { readonly mac: string; readonly ip: string },
  target: { readonly mac: string; readonly ip: string },
): Buffer {
  const head = Buffer.from([0, 1, 8, 0, 6, 4, 0, operation === "request" ? 1 : 2]);
  return Buffer.concat([
    head,
    ...[sender, target].flatMap(({ mac, ip }) => [bytes(mac), bytes(ip)]),
  ]);
}
