import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import {
  forgetFlows,
  hostPortTables,
  NetworkRules,
  staleHostPortFlows,
  type HostPort,
} from "../src/index.ts";
import { cable, podAddresses, TestNetwork } from "./test-network.ts";

const [pod] = podAddresses;
const own = "10.0.0.2";
const first: readonly HostPort[] = [
  { protocol: "TCP", hostPort: 80, containerPort: 8080 },
  { protocol: "UDP", hostPort: 53, containerPort: 5300 },
  { protocol: "TCP", hostPort: 81, containerPort: 8080, hostIp: "127.0.0.1" },
  { protocol: "TCP", hostPort: 82, containerPort: 8080, hostIp: own },
];

describe("hostPortTables()", () => {
  let network: TestNetwork;
  const apply = async (...ports: readonly HostPort[]): Promise<void> => {
    await network.nft(hostPortTables(ports, { podAddresses, cable }));
  };

  before(async () => {
    network = await TestNetwork.open();
    await network.pod.listen(pod, 8080);
    await network.pod.listen(pod, 5300, "udp");
    await network.pod.listen("fd00:1::2", 8080);
    await network.cell.listen("127.0.0.1", 9000);
    await network.cell.run("sysctl", ["-qw", `net.ipv4.conf.${cable}.route_localnet=1`]);
    await apply(...first);
  });
  after(async () => await network[Symbol.asyncDispose]());

  it("lead from elsewhere to the pod, which sees the client's address", async () => {
    assert.equal(await network.others.tcp(own, 80), `${pod} 10.0.0.11`);
    assert.match(await network.others.tcp("fd00::2", 80), /^fd00:1::2 fd00::1/);
    assert.match(await network.others.udp(own, 53), /^10\.1\.0\.2 10\.0\.0\.11$/);
  });

  it("lead a pod to itself, and the machine at its own and its loopback addresses", async () => {
    assert.equal(await network.pod.tcp(own, 80), `${pod} ${own}`);
    assert.equal(await network.cell.tcp(own, 80), `${pod} ${own}`);
    assert.equal(await network.cell.tcp("127.0.0.1", 80), `${pod} ${own}`);
    assert.match(await network.cell.udp("127.0.0.1", 53), /^10\.1\.0\.2 /);
  });

  for (const [hostPort, others] of [
    [54, 0],
    [55, 20],
  ] as const)
    it(`lead a UDP client on that met nothing there before, and goes on sending, beside ${others} other ports`, async () => {
      const inNamespace = ["nsenter", "--target", String(network.cell.pid), "--net"];
      const send = async (): Promise<string> =>
        await network.others.udp(own, hostPort, 40_054, 1000);
      assert.equal(await send(), "error: ECONNREFUSED");
      const late = { protocol: "UDP", hostPort, containerPort: 5300 } as const;
      await apply(...first, late);
      const more = Array.from({ length: others }, (_, i) => ({ ...late, hostPort: 1000 + i }));
      const stale = staleHostPortFlows([...first, late, ...more], podAddresses);
      await forgetFlows(stale, { inNamespace });
      assert.match(await send(), /^10\.1\.0\.2 10\.0\.0\.11$/);
      assert.equal(await forgetFlows(stale, { inNamespace }), 0, "that flow is right");
    });

  it("answer at one address alone if it is given", async () => {
    assert.match(await network.cell.tcp("127.0.0.1", 81), /^10\.1\.0\.2 /);
    assert.equal(await network.others.tcp(own, 81), "error: ECONNREFUSED");
    assert.match(await network.others.tcp(own, 82), /^10\.1\.0\.2 /);
    assert.equal(await network.cell.tcp("127.0.0.1", 82), "error: ECONNREFUSED");
  });

  it("let a pod with NET_ADMIN reach nothing at the machine's loopback addresses", async () => {
    assert.equal(await network.cell.tcp("127.0.0.1", 9000), "127.0.0.1 127.0.0.1");
    assert.equal(await network.pod.tcp("127.0.0.1", 9000, 500), "error: ECONNREFUSED");
    await network.pod.ip("address flush dev lo", "route add 127.0.0.0/8 via 169.254.1.1 dev eth0");
    await network.pod.run("sysctl", ["-qw", "net.ipv4.conf.eth0.route_localnet=1"]);
    assert.equal(await network.pod.tcp("127.0.0.1", 9000, 500), "error: timeout");
    assert.equal(await network.pod.tcp("127.0.0.1", 80, 500), "error: timeout");
  });

  it("are replaced at once, and open connections stay", async () => {
    const { id } = await network.others.start({ do: "hold", host: own, port: 80 });
    await apply({ protocol: "TCP", hostPort: 90, containerPort: 8080 });
    assert.equal(await network.others.ask({ do: "echo", host: "", port: id }), "again");
    assert.equal(await network.others.tcp(own, 80), "error: ECONNREFUSED");
    assert.match(await network.others.tcp(own, 90), /^10\.1\.0\.2 /);
  });

  it("go before a NodePort of the same number", async () => {
    const rules = new NetworkRules({
      place: { podAddresses, cable, nodeAddresses: [], serviceRanges: [] },
      runNft: async (text) => await network.nft(text),
      forget: async () => {},
      logger: silentLogger,
    });
    const port = { name: "", protocol: "TCP", port: 80, endpoints: [], nodePort: 90 } as const;
    const services = new Map([["default/web", { clusterIps: ["10.96.0.10"], ports: [port] }]]);
    await rules.apply({ number: 1, services, buckets: [], groups: [], policy: {} });
    assert.match(await network.others.tcp(own, 90), /^10\.1\.0\.2 /);
    await rules.apply({
      number: 2,
      services: new Map(),
      buckets: [],
      groups: [],
      policy: { ingress: [] },
    });
    assert.equal(await network.others.tcp(own, 90, 500), "error: timeout");
  });
});
