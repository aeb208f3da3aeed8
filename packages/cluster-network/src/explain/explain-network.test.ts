import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ask, cluster, pod, policy, service, slice } from "../testing/explain-cluster.ts";

describe("explainNetwork()", () => {
  it("names the Service, its endpoints and the pod behind an address", () => {
    for (const to of ["shop", "service/shop", "shop.shop.svc.cluster.local", "10.96.0.1:80"])
      assert.match(
        ask(to),
        /^passes: .*Service shop\/shop, port 80\/TCP .* leads to 1 endpoint; pod shop\/a reaches pod shop\/web \(10\.0\.0\.2 port 8080\/TCP\): no policy/,
      );
  });

  it("names the pods that a Service selects, and why none is ready", () => {
    assert.match(
      ask("service/late"),
      /^refused: .*late is not ready \(container main waits: Crash/,
    );
    assert.match(ask("none"), /^refused: .*No pod has its selector's labels app=none/);
  });

  it("says which ports a Service has", () => {
    assert.match(ask("shop:81"), /^refused: .*no port 81, only 80\/TCP/);
    assert.match(ask("shop", { protocol: "UDP" }), /^refused: .*no port UDP/);
  });

  it("says what a name without rules leads to", () => {
    assert.match(ask("outside"), /^unknown: .*another name for db\.example/);
    assert.match(ask("db:80"), /^passes: .*headless.*target port 8080.*10\.0\.0\.2 port 80/);
    assert.match(ask("db-0.db.shop.svc:8080"), /^passes: .*pod shop\/web/);
    assert.match(ask("example.com:443"), /^unknown: .*not a name of this cluster/);
  });

  it("says what is missing, or has two meanings", () => {
    assert.match(ask("pod/gone"), /^absent: .*There is no pod shop\/gone/);
    assert.match(ask("web"), /^absent: .*is a pod and a Service: write pod\/web or service\/web/);
    assert.match(ask("shop", { pod: "gone" }), /^absent: There is no pod gone in namespace shop/);
    assert.match(ask("10.96.7.7:80"), /^dropped: .*no Service has it/);
  });

  it("says which Services have no rules as those of the namespace are too large together", () => {
    const addresses = Array.from({ length: 1000 }, (_, i) => `10.7.${i >> 8}.${i & 255}`);
    const numbers = Array.from({ length: 36 }, (_, i) => i + 80);
    const names = ["bulky", "heavy", "large"]; // the third has no room beside the others
    const large = {
      ...cluster,
      services: [
        ...cluster.services,
        ...names.map((name, i) => {
          const ports = numbers.map((port) => ({
            name: `p${port}`,
            port,
            nodePort: 30_000 + port,
          }));
          return service(name, `10.96.0.${i + 7}`, { ports, externalIPs: [`192.0.2.${i}`] });
        }),
      ],
      slices: [
        ...cluster.slices,
        ...names.map((name) => {
          const ports = numbers.map((port) => ({ name: `p${port}`, port: 8080, protocol: "TCP" }));
          return { ...slice(name, "10.0.0.2", ...addresses), ports } as const;
        }),
      ],
    };
    const without =
      /^dropped: .*Service shop\/large has no rules on cells: .*namespace shop .*one of 1 that/;
    assert.match(ask("service/large:80", {}, large), without);
    assert.match(ask("10.96.0.9:80", {}, large), without);
    assert.match(ask("service/shop", {}, large), /^passes/);
    assert.match(
      ask(undefined, { pod: "web" }, large),
      /Service shop\/large selects .* no rules on cells/,
    );
    assert.match(
      ask("service/large:80", {}, { ...large, serviceRanges: [] }),
      /^unknown: .*leave the cell/,
    );
  });

  it("says that a loopback address is the pod's own, whatever policies say", () => {
    const closed = policy("closed", { podSelector: {}, policyTypes: ["Egress"] });
    for (const to of ["127.0.0.1:30080", "[::1]:80"])
      assert.match(
        ask(to, {}, { ...cluster, policies: [closed] }),
        /^passes: .* is the loopback address of pod shop\/a itself: /,
      );
  });

  it("names the policies that do not allow, by direction", () => {
    const closed = policy("closed", {
      podSelector: { matchLabels: { app: "web" } },
      policyTypes: ["Ingress"],
    });
    const objects = { ...cluster, policies: [closed] };
    assert.match(
      ask("shop", {}, objects),
      /^dropped: .*web may not be reached by pod shop\/a .*closed restricts this direction/,
    );
    const noEgress = policy("no-egress", { podSelector: {}, policyTypes: ["Egress"] });
    assert.match(
      ask("shop", {}, { ...cluster, policies: [noEgress] }),
      /^dropped: .*a may not reach pod shop\/web .*no-egress/,
    );
    assert.match(ask("shop", { pod: "host" }, objects), /^passes: .*node always reach/);
  });

  it("names the policy that allows", () => {
    const ingress = [{ from: [{ podSelector: { matchLabels: { app: "a" } } }] }];
    const objects = { ...cluster, policies: [policy("from-a", { podSelector: {}, ingress })] };
    assert.match(ask("shop", {}, objects), /allowed by NetworkPolicy from-a \(ingress of pod/);
  });

  it("describes a pod without a question", () => {
    const objects = { ...cluster, policies: [policy("closed", { podSelector: {} })] };
    assert.match(
      ask(undefined, { pod: "web" }, objects),
      /^described: .*on node kip; Its addresses: 10\.0\.0\.2; What may reach it is restricted by closed \(ingress\); No policy .*egress.*; Service shop\/shop leads to/,
    );
  });

  it("says of a pod on another node that kip does not decide there", () => {
    assert.match(ask("pod/far:80"), /far is on node n1, which is not a virtual node/);
  });

  it("leads a NodePort at the node's address, and says what externalTrafficPolicy means", () => {
    assert.match(ask("10.9.0.1:30080"), /^passes: .*NodePort of Service shop\/node.*is Local/);
  });

  it("leads a host port to its pod, whose policies see the port of the container", () => {
    const ports = [
      { hostPort: 9090, containerPort: 8080 },
      { hostPort: 9091, containerPort: 8080, hostIP: "127.0.0.1" },
      { hostPort: 9092, containerPort: 8080, hostIP: "10.9.0.1" },
    ];
    const behind = pod("behind", "10.0.0.5", {
      spec: { containers: [{ name: "main", ports }] },
      status: { hostIP: "10.9.0.5" },
    });
    const objects = { ...cluster, pods: [...cluster.pods, behind] };
    const selected = { podSelector: { matchLabels: { app: "behind" } } };
    const to = "10.9.0.5:9090";
    assert.match(ask(to, {}, objects), /^passes: .*host port of pod shop\/behind.*no policy/);
    assert.match(ask("10.9.0.5:9091", {}, objects), /^passes: .*a reaches 10\.9\.0\.5 port 9091/);
    assert.match(ask("10.9.0.5:9092", {}, objects), /^passes: .*host port of pod shop\/behind/);
    const closed = { ...objects, policies: [policy("closed", selected)] };
    assert.match(
      ask(to, {}, closed),
      /^dropped: .*behind may not be reached by .* at port 8080\/TCP: NetworkPolicy closed/,
    );
    assert.match(ask(to, { pod: "behind" }, closed), /^passes: .*always reaches itself/);
    const ingress = [{ ports: [{ port: 8080 }] }];
    const open = { ...objects, policies: [policy("open", { ...selected, ingress })] };
    assert.match(ask(to, {}, open), /^passes: .*allowed by NetworkPolicy open \(ingress/);
    // The client's own policies are in force before its packets come to the other cell.
    const egress = [{ to: [selected] }];
    const outward = policy("outward", { podSelector: {}, policyTypes: ["Egress"], egress });
    assert.match(
      ask(to, {}, { ...objects, policies: [outward] }),
      /^dropped: .*a may not reach 10\.9\.0\.5 port 9090\/TCP: NetworkPolicy outward/,
    );
  });

  it("leads a host port by IPv6, too", () => {
    const ips = (own: string) => ({ podIPs: [{ ip: "10.0.0.7" }, { ip: own }] });
    const ports = [
      { hostPort: 9090, containerPort: 8080 },
      { hostPort: 9091, containerPort: 8080, hostIP: "FD00:9:0::7" },
    ];
    const status = { ...ips("fd00::7"), hostIPs: [{ ip: "10.9.0.7" }, { ip: "fd00:9::7" }] };
    const behind = pod("behind", "10.0.0.7", {
      spec: { containers: [{ name: "c", ports }] },
      status,
    });
    const client = pod("a", "10.0.0.8", { status: ips("fd00::8") });
    const objects = { ...cluster, pods: [behind, client] };
    for (const port of [9090, 9091])
      assert.match(
        ask(`[fd00:9::7]:${port}`, {}, objects),
        /^passes: .*host port of pod shop\/behind.*fd00::7 port 8080/,
      );
  });

  it("leads a NodePort at the address of the pod's own cell, and does not know that of another one", () => {
    const [a, ...others] = [
      pod("a", "10.0.0.1", { status: { hostIP: "10.9.0.4" } }),
      ...cluster.pods.slice(1),
    ];
    const far = pod("other", "10.0.0.6", { status: { hostIP: "10.9.0.6" } });
    const objects = { ...cluster, pods: [a, ...others, far] };
    assert.match(ask("10.9.0.4:30080", {}, objects), /^passes: .*NodePort of Service shop\/node/);
    assert.match(
      ask("10.9.0.6:30080", {}, objects),
      /^unknown: .*another pod's cell.*NodePort of Service shop\/node/,
    );
  });

  it("leads no NodePort of an IP version that the Service has no cluster IP of", () => {
    const [hostIPs, podIPs] = [
      [{ ip: "10.9.0.4" }, { ip: "fd00:9::4" }],
      [{ ip: "10.0.0.1" }, { ip: "fd00::1" }],
    ];
    const [a, far] = [
      pod("a", "10.0.0.1", { status: { hostIP: "10.9.0.4", hostIPs, podIPs } }),
      pod("far", "10.0.0.6", { status: { hostIP: "10.9.0.6", hostIPs: [{ ip: "fd00:9::6" }] } }),
    ];
    const objects = { ...cluster, pods: [a, far, ...cluster.pods.slice(1, 2)] };
    assert.match(ask("10.9.0.4:30080", {}, objects), /^passes: .*NodePort of Service shop\/node/);
    for (const to of ["[fd00:9::4]:30080", "[fd00:9::6]:30080"])
      assert.match(ask(to, {}, objects), /^passes: .*a reaches fd00:9::\d port 30080/);
  });

  it("takes the ports of a headless Service with their protocols", () => {
    const udp = policy("udp", {
      podSelector: { matchLabels: { app: "web" } },
      ingress: [{ ports: [{ protocol: "UDP", port: 53 }] }],
    });
    const names = slice("db", "10.0.0.2");
    const slices = [{ ...names, ports: [{ name: "", port: 53, protocol: "UDP" }] }];
    const objects = { ...cluster, slices, policies: [udp] };
    assert.match(ask("db", {}, objects), /^passes: .*port 53\/UDP/);
    assert.match(ask("db", { port: 53 }, objects), /^passes: .*port 53\/UDP/);
    assert.match(ask("db", { protocol: "TCP" }, objects), /^absent/);
    assert.match(ask("db", { port: 53, protocol: "TCP" }, objects), /^dropped/);
  });

  it("does not know what becomes of packets of a cell without rules", () => {
    const events = [
      {
        metadata: {},
        involvedObject: { uid: "a" },
        reason: "NetworkUnsupported",
        message: "an earlier version",
      },
    ];
    assert.match(ask("shop", {}, { ...cluster, events }), /^unknown: .*NetworkUnsupported of pod/);
  });

  it("does not leave the node with internalTrafficPolicy Local", () => {
    const local = service("shop", "10.96.0.1", { internalTrafficPolicy: "Local" });
    assert.match(
      ask("shop", {}, { ...cluster, services: [local] }),
      /^dropped: .*internalTrafficPolicy Local and no endpoint on node kip/,
    );
  });

  it("names the policy of an administrator that denies", () => {
    const ingress = [{ action: "Deny", from: [{ namespaces: {} }] }];
    const spec = { priority: 1, subject: { namespaces: {} }, ingress };
    const tiers = [["AdminNetworkPolicy", { metadata: { name: "shut" }, spec }]] as const;
    assert.match(
      ask("shop", {}, { ...cluster, tiers }),
      /^dropped: .*a rule of AdminNetworkPolicy shut denies it/,
    );
  });

  it("says what could not be read, and that the answer is not known without it", () => {
    const unread = [{ resource: "namespaces", consequence: "not allowed", decides: true }];
    assert.match(ask("shop", {}, { ...cluster, unread }), /^unknown: .*namespaces: not allowed/);
    assert.match(ask(undefined, {}, { ...cluster, unread }), /^described: .*namespaces: not/);
  });
});
