// Fields of Services and host ports that decide which endpoint answers, and which clients get an answer, on real machines.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  cluster,
  eventually,
  readProviderConfig,
  shellPod,
  writeProviderConfig,
  type Cluster,
} from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const namespace = "variants";
/** The server at this port answers with its pod's name and the client address that it sees. */
const peerPort = 8081;
/** Addresses that do not exist outside of the cluster. */
const externalIp = "192.0.2.10";
const balancerIp = "192.0.2.20";

/** Duration of session affinity, seconds. Requests are sent within it and after it. */
const affinitySeconds = 5;

/** Programs of the cell, which has socat. The demo image has no program for UDP or SCTP. */
const ofCell = { volumes: [{ name: "cell", hostPath: { path: "/" } }] };
const mounts = { volumeMounts: [{ name: "cell", mountPath: "/cell" }] };

/** Settings of a probe whose program may start slowly. Only its result counts. */
const patient = { periodSeconds: 1, timeoutSeconds: 60 };

/**
 * A server that is not ready while the file /notready exists. For UDP it has one process per client. With `UDP4-RECVFROM,fork`,
 * which has one per datagram, socat 1.7 hangs if that process ends at once.
 */
function server(name: string, spec: object = {}, container: object = {}): object {
  const serve = `
chroot /cell socat -T5 UDP4-LISTEN:5300,fork,reuseaddr SYSTEM:'while read line; do echo ${name}; done' &
chroot /cell socat SCTP4-LISTEN:5301,fork SYSTEM:'read word; echo "$word ${name}"' &
chroot /cell socat TCP4-LISTEN:${peerPort},fork SYSTEM:'echo "${name} $SOCAT_PEERADDR"' &
mkdir -p /www; echo ${name} >/www/index.html; exec httpd -f -p 8080 -h /www`;
  const readinessProbe = {
    exec: { command: ["test", "!", "-e", "/notready"] },
    ...patient,
    failureThreshold: 1,
  };
  return labelled(
    shellPod(name, serve, { ...ofCell, ...spec }, { ...mounts, readinessProbe, ...container }),
    { app: name === "host" ? "host" : "web", name, ...(name !== "two" && { stays: "ready" }) },
  );
}

function labelled(pod: object, labels: object): object {
  const { metadata } = pod as { metadata: object };
  return { ...pod, metadata: { ...metadata, labels } };
}

const ports = [
  { name: "http", port: 80, targetPort: 8080 },
  { name: "peer", port: 81, targetPort: peerPort },
  { name: "udp", port: 53, targetPort: 5300, protocol: "UDP" },
];

function service(name: string, spec: object = {}): object {
  return { apiVersion: "v1", kind: "Service", metadata: { name }, spec: { ports, ...spec } };
}

/** An EndpointSlice for a Service without a selector. */
function slice(service: string, endpoints: readonly object[]): object {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${service}-1`, labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    ports: [
      { name: "http", port: 8080 },
      { name: "peer", port: peerPort },
    ],
    endpoints,
  };
}

describe("fields of Services", () => {
  let kube: Cluster;
  /** Addresses of the pods and of their cells. */
  const podIp: Record<string, string> = {};
  const cellIp: Record<string, string> = {};

  before(async () => {
    kube = await cluster(namespace);
    const hostPorts = [
      { containerPort: 5301, hostPort: 15_301, protocol: "SCTP" },
      { containerPort: 8080, hostPort: 18_180, hostIP: own.hostAddress },
      { containerPort: 8080, hostPort: 18_181, hostIP: "127.0.0.1" },
      { containerPort: 8080, hostPort: 18_182, hostIP: "192.0.2.1" },
    ];
    const httpGet = { host: "127.0.0.1", port: 18_181 };
    const atLoopback = { httpGet, ...patient };
    await kube.apply(
      // Only ready if the host port answers at the loopback address there.
      server("one", {}, { ports: hostPorts, readinessProbe: atLoopback }),
      server("two"),
      server("host", { hostNetwork: true }),
      labelled(shellPod("client", "exec sleep 100000", ofCell, mounts), { name: "client" }),
    );
    const names = ["one", "two", "host", "client"];
    const pods = names.map((name) => `pod/${name}`);
    await kube.ok("wait", "--for=condition=Ready", ...pods, "--timeout=240s");
    const config = { clientIP: { timeoutSeconds: affinitySeconds } };
    const sticky = { sessionAffinity: "ClientIP", sessionAffinityConfig: config };
    await kube.apply(service("sticky", { selector: { stays: "ready" }, ...sticky }));
    await askOften("client", 0.7);
    await askOften("two", affinitySeconds + 0.5);
    for (const name of names) {
      podIp[name] = await show("pod", name, ".status.podIP");
      cellIp[name] = await show("pod", name, ".status.hostIP");
    }
  });

  after(async () => {
    await kube.ok("delete", "service", "--all");
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
  });

  const show = async (what: string, name: string, field: string): Promise<string> =>
    await kube.ok("get", what, name, "-o", `jsonpath={${field}}`);
  const addressOf = async (name: string): Promise<string> =>
    await show("service", name, ".spec.clusterIP");
  const nodePortOf = async (name: string, port: string): Promise<string> =>
    await show("service", name, `.spec.ports[?(@.name=="${port}")].nodePort`);
  /** Output of a shell command in a pod, even if it fails. */
  const within = async (name: string, script: string): Promise<string> =>
    (await kube.ok("exec", name, "--", "sh", "-c", `${script} 2>&1; true`)).trim();
  const ask = async (from: string, to: string): Promise<string> =>
    await within(from, `wget -qT3 -O- http://${to}/`);
  /** The server's name, and the client address that it sees. */
  const askPeer = async (from: string, to: string): Promise<string> =>
    await within(from, `chroot /cell socat -T3 -u TCP4:${to},connect-timeout=3 -`);
  const patch = async (name: string, change: object, ...flags: readonly string[]): Promise<void> =>
    void (await kube.ok("patch", "service", name, ...flags, "-p", JSON.stringify(change)));
  /** Sends requests to the Service with session affinity, with this pause in seconds, and records which server answers. */
  const askOften = async (from: string, pause: number): Promise<void> => {
    const url = `http://${await addressOf("sticky")}/`;
    const request = `answer=$(wget -qT3 -O- ${url}) && echo "$start $answer $(date +%s)" >>/requests`;
    const loop = `while :; do start=$(date +%s); ${request}; sleep ${pause}; done`;
    await within(from, `(${loop}) >/dev/null 2>&1 &`);
  };

  /** Waits until a result matches. */
  const becomes = async (read: () => Promise<string>, expected: string | RegExp): Promise<void> => {
    let last = "";
    const isMet = (): boolean =>
      typeof expected === "string" ? last === expected : expected.test(last);
    await eventually(String(expected), async () => {
      last = await read();
      return isMet();
    }).catch((error: unknown) => {
      throw new Error(`Last read: ${last}`, { cause: error });
    });
  };
  /** Waits until requests from the pod get all of these answers, and no others. */
  const answered = async (from: string, to: string, ...names: readonly string[]): Promise<void> => {
    const loop = `for i in $(seq 10); do wget -qT3 -O- http://${to}/; done`;
    const read = async (): Promise<string> =>
      [...new Set((await within(from, loop)).split("\n"))].sort().join();
    await becomes(read, names.join());
  };
  /**
   * Waits until one of several endpoints answers, and checks that it answers enough further requests for others to have been
   * chosen.
   */
  const answeredByOne = async (from: string, to: string, name: string): Promise<void> => {
    await answered(from, to, name);
    const loop = `for i in $(seq 16); do wget -qT30 -O- http://${to}/; done`;
    assert.deepEqual(new Set((await within(from, loop)).split("\n")), new Set([name]));
  };
  /** Waits until requests from the pod are dropped. */
  const dropped = async (from: string, to: string): Promise<void> =>
    await becomes(async () => await ask(from, to), /timed out/);

  it("externalIPs lead pods to the endpoints, those with the cell's network too", async () => {
    await kube.apply(service("external", { selector: { name: "one" }, externalIPs: [externalIp] }));
    for (const from of ["client", "host", "one"]) await answered(from, externalIp, "one");
  });

  it("addresses of a load balancer lead pods on, within its source ranges, unless it proxies", async () => {
    await kube.apply(service("balanced", { selector: { name: "two" }, type: "LoadBalancer" }));
    const status = async (ingress: object): Promise<void> => {
      const change = { status: { loadBalancer: { ingress: [ingress] } } };
      await patch("balanced", change, "--subresource=status");
    };
    await status({ ip: balancerIp });
    for (const from of ["client", "one"]) await answered(from, balancerIp, "two");
    await patch("balanced", { spec: { loadBalancerSourceRanges: [`${podIp["one"]}/32`] } });
    await dropped("client", balancerIp);
    assert.equal(await ask("one", balancerIp), "two");
    assert.equal(await ask("client", await addressOf("balanced")), "two");
    await patch("balanced", { spec: { loadBalancerSourceRanges: null } });
    await answered("client", balancerIp, "two");
    await status({ ip: balancerIp, ipMode: "Proxy" });
    // The address does not exist outside of the cluster.
    await becomes(async () => await ask("client", balancerIp), /timed out|refused|unreachable/);
    assert.equal(await ask("client", await addressOf("balanced")), "two");
  });

  it("internalTrafficPolicy Local leads to endpoints of the node alone, and drops without one", async () => {
    const here = { addresses: [podIp["one"]], nodeName: own.name };
    const elsewhere = { addresses: [podIp["two"]], nodeName: "elsewhere" };
    await kube.apply(
      service("internal", { internalTrafficPolicy: "Local" }),
      slice("internal", [here, elsewhere]),
    );
    const address = await addressOf("internal");
    await answeredByOne("client", address, "one");
    await kube.apply(slice("internal", [elsewhere]));
    await dropped("client", address);
    await patch("internal", { spec: { internalTrafficPolicy: "Cluster" } });
    await answeredByOne("client", address, "two");
  });

  it("hints for the node and its zone are followed if each endpoint has some", async () => {
    const zone = await show("node", own.name, ".metadata.labels.topology\\.kubernetes\\.io/zone");
    assert.notEqual(zone, "");
    await kube.apply(service("hinted", { trafficDistribution: "PreferSameZone" }));
    const address = await addressOf("hinted");
    const both = async (one: object | undefined, two: object | undefined): Promise<void> =>
      await kube.apply(
        slice("hinted", [
          { addresses: [podIp["one"]], hints: one },
          { addresses: [podIp["two"]], hints: two },
        ]),
      );
    const zones = (name: string): object => ({ forZones: [{ name }] });
    const nodes = (name: string): object => ({ ...zones(zone), forNodes: [{ name }] });
    await both(zones(zone), zones("elsewhere"));
    await answeredByOne("client", address, "one");
    await both(zones(zone), undefined);
    await answered("client", address, "one", "two");
    await both(nodes("elsewhere"), nodes(own.name));
    await answeredByOne("client", address, "two");
    await both(zones("elsewhere"), zones("elsewhere"));
    await answered("client", address, "one", "two");
    // The zone comes from the Node's label, which the configuration may replace.
    const config = readProviderConfig();
    const labels = "labels: {topology.kubernetes.io/zone: other}";
    assert.match(config, /^kubelet:\n/m);
    writeProviderConfig(config.replace(/^kubelet:\n/m, `kubelet:\n  ${labels}\n`));
    try {
      await both(zones("other"), zones(zone));
      await answeredByOne("client", address, "one");
    } finally {
      writeProviderConfig(config);
    }
    await answeredByOne("client", address, "two");
  });

  it("NodePorts at a cell lead to any endpoint from any address, with externalTrafficPolicy Local to its own pod alone", async () => {
    await kube.apply(service("ported", { selector: { name: "two" }, type: "NodePort" }));
    const [http, peer] = [await nodePortOf("ported", "http"), await nodePortOf("ported", "peer")];
    // At the cell of another pod, which replaces the source address by its own.
    await becomes(
      async () => await askPeer("client", `${cellIp["one"]}:${peer}`),
      `two ${cellIp["one"]}`,
    );
    await answered("client", `${own.hostAddress}:${http}`, "two");
    await patch("ported", { spec: { externalTrafficPolicy: "Local" } });
    await dropped("client", `${cellIp["one"]}:${http}`);
    // The endpoint's cell preserves the client's address.
    await becomes(
      async () => await askPeer("client", `${cellIp["two"]}:${peer}`),
      `two ${podIp["client"]}`,
    );
    // The client's own cell forwards it to any endpoint, like a node does for its own pods' traffic.
    for (const address of [own.hostAddress, cellIp["client"]])
      assert.equal(await ask("client", `${address}:${http}`), "two");
    for (const address of ["127.0.0.1", own.hostAddress]) {
      const answer = await fetch(`http://${address}:${http}/`);
      assert.equal((await answer.text()).trim(), "two", address);
    }
  });

  it("publishNotReadyAddresses leads to pods that are not ready", async () => {
    const selector = { app: "web" };
    await kube.apply(
      service("ready", { selector }),
      service("published", { selector, publishNotReadyAddresses: true }),
    );
    const [ready, published] = [await addressOf("ready"), await addressOf("published")];
    await answered("client", ready, "one", "two");
    await within("two", "touch /notready");
    await kube.ok("wait", "--for=condition=Ready=false", "pod/two", "--timeout=240s");
    await answeredByOne("client", ready, "one");
    await answered("client", published, "one", "two");
    await within("two", "rm /notready");
    await answered("client", ready, "one", "two");
  });

  it("a UDP client that keeps its port is led to another endpoint when its own is gone", async () => {
    await kube.apply(service("datagrams", { selector: { name: "one" } }));
    const to = `UDP4:${await addressOf("datagrams")}:53,sourceport=40001`;
    const talk = `
(while [ ! -e /enough ]; do
  (while [ ! -e /enough ]; do echo; sleep 0.2; done) | chroot /cell socat - ${to} >>/answers 2>&1
  sleep 0.2
done) >/dev/null 2>&1 &`;
    await within("client", talk);
    const last = async (): Promise<string> => await within("client", "tail -n1 /answers");
    for (const name of ["one", "two", "none", "one"]) {
      await patch("datagrams", { spec: { selector: { name } } });
      await becomes(last, name === "none" ? /refused/ : name);
    }
    await within("client", "touch /enough");
  });

  it("a pod with its cell's network is a client and an endpoint, also of itself", async () => {
    await kube.apply(
      service("hosted", { selector: { name: "host" } }),
      service("mixed", { selector: { name: "one" } }),
    );
    const [hosted, mixed] = [await addressOf("hosted"), await addressOf("mixed")];
    await answered("client", hosted, "host");
    await answered("host", hosted, "host");
    await answered("host", mixed, "one");
    assert.equal(podIp["host"], cellIp["host"]);
    assert.equal(await askPeer("host", `${mixed}:81`), `one ${cellIp["host"]}`);
    assert.equal(await askPeer("client", `${hosted}:81`), `host ${podIp["client"]}`);
    // As on every node, the cluster's names need another dnsPolicy.
    assert.match(await within("host", "cat /etc/resolv.conf"), /^nameserver /m);
    const fromHere = await fetch(`http://${hosted}/`, { signal: AbortSignal.timeout(20_000) });
    assert.equal((await fromHere.text()).trim(), "host");
  });

  it("host ports lead by SCTP, and at the address alone that hostIP names", async () => {
    const cell = cellIp["one"] ?? "";
    const talk = "echo asked; read answer; echo $answer >&2";
    for (const from of ["client", "one", "host"]) {
      const sctp = `chroot /cell socat -T5 SCTP4:${cell}:15301 SYSTEM:'${talk}'`;
      await becomes(async () => await within(from, sctp), "asked one");
    }
    assert.equal(await ask("client", `${cell}:18180`), "one");
    assert.equal((await (await fetch(`http://${cell}:18180/`)).text()).trim(), "one");
    // The host ports are not open at other addresses of the cell, nor at this computer's.
    for (const port of [18_181, 18_182])
      assert.match(await ask("client", `${cell}:${port}`), /refused/);
    await assert.rejects(fetch(`http://${own.hostAddress}:18180/`));
  });

  it("a client stays at its endpoint while it comes again in time, and is forgotten when it was away for longer", async () => {
    const requests = async (from: string): Promise<readonly Request[]> =>
      (await within(from, "cat /requests")).split("\n").map(readRequest);
    await eventually("requests in time, for longer than the timeout", async () => {
      let since: number | undefined;
      let longest = 0;
      const list = await requests("client");
      for (const [index, { end, server }] of list.entries()) {
        const before = list[index - 1];
        // A request that started in second 1 and ended in second 5 took less than 5 seconds.
        const isInTime = before !== undefined && end - before.start < affinitySeconds;
        if (isInTime) assert.equal(server, before.server, JSON.stringify([before, list[index]]));
        since = isInTime ? (since ?? before.start) : undefined;
        longest = Math.max(longest, end - (since ?? end));
      }
      return longest > 2 * affinitySeconds;
    });
    await eventually(
      "another server",
      async () => new Set((await requests("two")).map(({ server }) => server)).size === 2,
    );
  });
});

interface Request {
  /** Seconds since the Unix epoch, rounded down. */
  readonly start: number;
  readonly end: number;
  readonly server: string;
}

function readRequest(line: string): Request {
  const [start, server = "", end] = line.split(" ");
  return { start: Number(start), server, end: Number(end) };
}
