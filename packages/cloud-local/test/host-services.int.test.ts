import assert from "node:assert/strict";
import { once } from "node:events";
import os from "node:os";
import { after, before, describe, it } from "node:test";
import { CommandError, runCommand, silentLogger, systemClock } from "@kip/base";
import { CloudError, type ServiceSource } from "@kip/cloud";
import { encodeLine, type ServiceView } from "@kip/network-view";
import { routeHostServices } from "../src/network/host-services.ts";
import { LocalNetwork, type LocalNetworkOptions } from "../src/network/local-network.ts";
import { namespaceOf } from "../src/network/namespace.ts";
import { joinBridge, type BridgeGuest } from "./support/bridge-guest.ts";
import { listen } from "./support/listeners.ts";
import { programFile } from "./support/program-file.ts";

const options: LocalNetworkOptions = {
  name: "kiptsvc",
  stateDir: os.tmpdir(),
  range: "198.18.232.0/21",
  internet: false,
  hostPorts: [],
  managementPorts: [6421],
  serviceRanges: ["10.116.0.0/16"],
  hostServices: true,
  logger: silentLogger,
};
const vip = "10.116.0.50";
/** A network that connects this computer to another one. */
const lan = { here: "198.51.100.1", other: "198.51.100.2", device: "kiptsvcl" } as const;

/** Delivers one Service, and each later state of it once the previous one is in force. */
class Source implements ServiceSource {
  readonly #waiting: Buffer[] = [];
  #number = 0;
  #wake = Promise.withResolvers<void>();
  #applied = Promise.withResolvers<void>();

  subscribe(): ReturnType<ServiceSource["subscribe"]> {
    return {
      next: async (signal) => {
        if (this.#waiting.length === 0) this.#applied.resolve();
        const aborted = new Promise<never>((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
        });
        while (this.#waiting.length === 0) await Promise.race([this.#wake.promise, aborted]);
        this.#wake = Promise.withResolvers();
        return this.#waiting.splice(0, 1);
      },
      [Symbol.dispose]: () => {},
    };
  }

  /** Resolves when it is in force. */
  async set(view: ServiceView | undefined): Promise<void> {
    this.#number += 1;
    this.#applied = Promise.withResolvers();
    const line = encodeLine({ kind: "service", key: "default/web", view });
    this.#waiting.push(Buffer.from(line + encodeLine({ kind: "end", number: this.#number })));
    this.#wake.resolve();
    await this.#applied.promise;
  }
}

function service(endpoints: readonly string[], more: Partial<ServiceView> = {}): ServiceView {
  const common = { name: "", endpoints, nodePort: 30_080 };
  return {
    clusterIps: [vip],
    ...more,
    ports: [
      { ...common, protocol: "TCP", port: 80 },
      { ...common, protocol: "UDP", port: 80 },
    ],
  };
}

describe("routeHostServices()", { timeout: 120_000 }, () => {
  const network = new LocalNetwork(options);
  const { plan } = network;
  const source = new Source();
  const stop = new AbortController();
  let leading: Promise<void>;
  let cell: BridgeGuest;
  let other: BridgeGuest;
  const otherComputer = namespaceOf("kiptsvc-lan");

  before(async () => {
    await network.prepare();
    await joinLan();
    cell = await joinBridge(network, 0);
    other = await joinBridge(network, 1);
    const server = cell.start("perl", [programFile("serve-hello.pl"), "8080"]);
    await once(server.stdout, "data");
    const needs = {
      network,
      nodePortAddresses: ["127.0.0.1", lan.here],
      clock: systemClock,
      logger: silentLogger,
    };
    leading = routeHostServices(source, needs, stop.signal);
    await source.set(service([`${cell.podIp}:8080`]));
  });
  after(async () => {
    stop.abort();
    await leading;
    await cell[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    await otherComputer.remove(); // and the cable to it
    await network.remove();
  });

  const joinLan = async (): Promise<void> => {
    await otherComputer.remove();
    await otherComputer.create();
    const { here, other: there, device } = lan;
    const end = ["peer", "name", "eth0", "netns", otherComputer.file];
    await runCommand("ip", ["link", "add", device, "type", "veth", ...end]);
    await runCommand("ip", ["addr", "add", `${here}/30`, "dev", device]);
    await runCommand("ip", ["link", "set", device, "up"]);
    const lines = [`addr add ${there}/30 dev eth0`, "link set eth0 up"];
    await otherComputer.run("ip", ["-batch", "-"], lines.join("\n"));
  };

  const ask = async (address: string, port = 80): Promise<string> => {
    const words = ["--silent", "--max-time", "5", "--noproxy", "*", `http://${address}:${port}/`];
    return (await runCommand("curl", words)).stdout;
  };
  // curl: 7 is a connection that failed, 28 the time limit
  const isRefused = (error: unknown): boolean => CommandError.is(error) && error.exitCode === 7;
  const isDropped = (error: unknown): boolean => CommandError.is(error) && error.exitCode === 28;

  it("leads the host to the pod behind a ClusterIP and behind a NodePort", async () => {
    for (let repetition = 0; repetition < 3; repetition++) assert.equal(await ask(vip), "hello");
    for (const address of [plan.gateway, plan.host, "127.0.0.1"])
      assert.equal(await ask(address, 30_080), "hello");
  });

  it("does not have clients of other computers pass for the node, by TCP and UDP", async () => {
    const server = cell.start("perl", [
      programFile("answer-udp.pl"),
      "8080",
      plan.host,
      "9",
      cell.podIp,
    ]);
    await once(server.stdout, "data");
    const curl = ["--silent", "--max-time", "2", "--noproxy", "*", `http://${lan.here}:30080/`];
    const fromOther = async (): Promise<string> => (await otherComputer.run("curl", curl)).stdout;
    const words = [programFile("ask-udp.pl"), lan.here, "30080"];
    const udpFromOther = async (): Promise<string> =>
      (await otherComputer.run("perl", [...words, lan.other])).stdout;
    const policy = async (allowed: string): Promise<void> => {
      const rules = `table ip pod_policy {
        chain in {
          type filter hook input priority 0
          th dport 8080 ip saddr { ${allowed} } accept
          th dport 8080 drop
        }
      }`;
      const clear = "add table ip pod_policy\ndelete table ip pod_policy\n";
      await cell.namespace.run("nft", ["-f", "-"], clear + rules);
    };
    try {
      // A pod whose policy allows no client except the node.
      await policy(`${plan.host}, ${plan.gateway}`);
      for (const address of [vip, "127.0.0.1", lan.here])
        assert.equal(await ask(address, address === vip ? 80 : 30_080), "hello");
      await assert.rejects(fromOther(), isDropped);
      assert.equal(await udpFromOther(), "no answer");
      await policy(plan.relay);
      assert.equal(await fromOther(), "hello");
      assert.equal(await udpFromOther(), "an answer");
    } finally {
      await cell.namespace.run("nft", ["delete", "table", "ip", "pod_policy"]);
      server.kill("SIGKILL");
    }
  });

  it("keeps half-closed connections translated for an hour, and ends none for a packet ahead of its window", async () => {
    const keys = ["timeout_close_wait", "be_liberal"].map(
      (name) => `net.netfilter.nf_conntrack_tcp_${name}`,
    );
    const { stdout } = await network.namespace.run("sysctl", ["-n", ...keys]);
    assert.equal(stdout, "3600\n1\n");
  });

  it("leads UDP to it, too", async () => {
    await source.set(service([`${cell.podIp}:5353`]));
    const server = cell.start("perl", [
      programFile("answer-udp.pl"),
      "5353",
      plan.host,
      "9",
      cell.podIp,
    ]);
    await once(server.stdout, "data");
    const words = [programFile("ask-udp.pl"), vip, "80", plan.host];
    assert.equal((await runCommand("perl", words)).stdout, "an answer");
    await source.set(service([`${cell.podIp}:8080`]));
  });

  it("leads the host to an endpoint that is the host itself", async () => {
    await using server = await listen(plan.host);
    await source.set(service([`${plan.host}:${server.port}`]));
    assert.equal(await ask(vip), "hello");
    await source.set(service([`${cell.podIp}:8080`]));
  });

  it("refuses at once what has no endpoint, and what is not a Service's", async () => {
    await source.set(service([]));
    await assert.rejects(ask(vip), isRefused);
    await assert.rejects(ask("10.116.9.9"), isRefused);
    // Its listener has accepted before it knows.
    await assert.rejects(ask("127.0.0.1", 30_080), (error) => CommandError.is(error));
    await source.set(service([`${cell.podIp}:8080`]));
    assert.equal(await ask(vip), "hello");
  });

  it("leads no machine: those have rules of their own", async () => {
    for (const from of [cell.machineIp, other.podIp]) {
      const guest = from === cell.machineIp ? cell : other;
      await assert.rejects(guest.fetch(`http://${vip}/`, "--interface", from), isRefused);
      await assert.rejects(
        guest.fetch(`http://${plan.gateway}:30080/`, "--interface", from, "--max-time", "1"),
      );
    }
  });

  it("leads neither the host nor a machine to an agent by way of a Service", async () => {
    const server = cell.start("perl", [programFile("serve-hello.pl"), "6421"]);
    await once(server.stdout, "data");
    await source.set(service([`${cell.machineIp}:6421`]));
    assert.equal(await ask(cell.machineIp, 6421), "hello");
    await assert.rejects(ask(vip), isDropped);
    await assert.rejects(other.fetch(`http://${vip}/`), isRefused);
    await source.set(service([`${cell.podIp}:8080`]));
  });

  it("writes everything again when rules were lost", async () => {
    await network.namespace.run("nft", ["flush", "ruleset"]);
    await network.prepare();
    await source.set(service([`${cell.podIp}:8080`], { externalIps: ["10.116.0.51"] }));
    assert.equal(await ask("10.116.0.51"), "hello");
  });
});

describe("LocalNetwork with Services for the host", { timeout: 60_000 }, () => {
  it("adds one route to the host, which goes with the network", async () => {
    const network = new LocalNetwork({ ...options, name: "kiptsvd", range: "198.18.228.0/22" });
    const routes = async (): Promise<string> =>
      (await runCommand("ip", ["-o", "route", "show", "root", "10.116.0.0/16"])).stdout;
    assert.equal(await routes(), "");
    await network.prepare();
    await network.prepare();
    assert.match(await routes(), /^10\.116\.0\.0\/16 via 198\.18\.228\.2 dev kiptsvd0 .*\n$/);
    await network.remove();
    assert.equal(await routes(), "");
  });

  it("refuses a range that the host has a route into", async () => {
    const device = "kiptsvx";
    await runCommand("ip", ["link", "add", device, "type", "bridge"]);
    try {
      await runCommand("ip", ["addr", "add", "10.116.7.1/24", "dev", device]);
      await runCommand("ip", ["link", "set", device, "up"]);
      const network = new LocalNetwork({ ...options, name: "kiptsvd", range: "198.18.228.0/22" });
      await assert.rejects(network.prepare(), (error) => {
        assert.ok(CloudError.is(error, "CLOUD_INVALID_REQUEST"));
        assert.match(error.message, /^Cannot use range "10\.116\.0\.0\/16" for Services: /);
        return true;
      });
    } finally {
      await runCommand("ip", ["link", "delete", device]);
    }
  });
});
