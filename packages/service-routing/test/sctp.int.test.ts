// SCTP packets through a Service. They are made here, so that the kernel needs its connection table for SCTP, but not SCTP itself.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually } from "@kip/testing";
import { forgetFlows, NetworkRules } from "../src/index.ts";
import { cable, podAddresses, TestNetwork, type Peer } from "./test-network.ts";

const initTag = 0x01_02_03_04;

/** A packet of one INIT or INIT ACK chunk. @see RFC 9260, 3.1 and 3.3.2 */
function packet(
  type: "init" | "initAck",
  { from, to }: { readonly from: number; readonly to: number },
): Buffer {
  const bytes = Buffer.alloc(32);
  bytes.writeUInt16BE(from, 0);
  bytes.writeUInt16BE(to, 2);
  bytes.writeUInt32BE(type === "init" ? 0 : initTag, 4);
  bytes[12] = type === "init" ? 1 : 2;
  bytes.writeUInt16BE(20, 14);
  bytes.writeUInt32BE(initTag, 16);
  bytes.writeUInt32BE(65_536, 20);
  bytes.writeUInt16BE(1, 24);
  bytes.writeUInt16BE(1, 26);
  bytes.writeUInt32BE(1, 28);
  bytes.writeUInt32LE(crc32c(bytes), 8);
  return bytes;
}

function crc32c(bytes: Buffer): number {
  let crc = 0xff_ff_ff_ff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82_f6_3b_78 : 0);
  }
  return ~crc >>> 0;
}

/** Collects the packets that reach a namespace; the first bytes of each are its ports. */
class Receiver implements Disposable {
  readonly #child;
  #bytes = Buffer.alloc(0);

  constructor(peer: Peer, version: 4 | 6) {
    const words = ["--target", String(peer.pid), "--net", "socat", "-u", `IP${version}-RECV:132`];
    this.#child = spawn("nsenter", [...words, "-"], { stdio: ["ignore", "pipe", "inherit"] });
    this.#child.stdout.on("data", (data: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, data]);
    });
  }

  /** Source and destination port of the first packet, and whether its checksum is right. */
  get first(): readonly [number, number, boolean] | undefined {
    if (this.#bytes.length < 32) return undefined;
    const bytes = Buffer.from(this.#bytes.subarray(0, 32));
    const sum = bytes.readUInt32LE(8);
    bytes.writeUInt32LE(0, 8);
    return [bytes.readUInt16BE(0), bytes.readUInt16BE(2), sum === crc32c(bytes)];
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

describe("NetworkRules with SCTP", () => {
  const families = [
    { version: 4, vip: "10.96.0.10", endpoint: "10.0.0.12", pod: podAddresses[0] },
    { version: 6, vip: "[fd00:96::a]", endpoint: "[fd00::12]", pod: `[${podAddresses[1]}]` },
  ] as const;
  const cases = families.flatMap((family) =>
    [undefined, 10].map((affinitySeconds) => ({ ...family, affinitySeconds })),
  );
  for (const { version, vip, endpoint, pod, affinitySeconds } of cases)
    it(`leads packets of IPv${version} to an endpoint ${affinitySeconds ? "with affinity" : ""}, and answers back as the Service's`, async () => {
      await using network = await TestNetwork.open();
      const { pod: client, others, cell } = network;
      const rules = new NetworkRules({
        place: { podAddresses, cable, nodeAddresses: [], serviceRanges: [] },
        runNft: async (text) => await network.nft(text),
        forget: async (flows) => {
          const inNamespace = ["nsenter", "--target", String(cell.pid), "--net"];
          await forgetFlows(flows, { inNamespace });
        },
        logger: silentLogger,
      });
      const port = {
        name: "",
        protocol: "SCTP",
        port: 80,
        endpoints: [`${endpoint}:8080`],
      } as const;
      const view = { clusterIps: [vip.replaceAll(/[[\]]/g, "")], affinitySeconds, ports: [port] };
      const services = new Map([["default/sctp", view]]);
      await rules.apply({ number: 1, services, buckets: [], groups: [], policy: {} });
      using atEndpoint = new Receiver(others, version);
      using atClient = new Receiver(client, version);
      /** Sent again until it arrives, as SCTP does. */
      const send = async (peer: Peer, to: string, what: Buffer, until: Receiver): Promise<void> =>
        await eventually(
          async () => {
            const file = `printf '${[...what].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")}'`;
            await peer.run("sh", ["-c", `${file} | socat -u - IP${version}-SENDTO:${to}`]);
            return until.first !== undefined;
          },
          { what: "a packet of SCTP", limitMs: 20_000, intervalMs: 200 },
        );
      await send(client, `${vip}:132`, packet("init", { from: 5000, to: 80 }), atEndpoint);
      assert.deepEqual(atEndpoint.first, [5000, 8080, true]);
      const answer = packet("initAck", { from: 8080, to: 5000 });
      await send(others, `${pod}:132,bind=${endpoint}`, answer, atClient);
      assert.deepEqual(atClient.first, [80, 5000, true]);
    });
});
