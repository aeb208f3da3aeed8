// Network policies on real machines: each kind of peer and port, and when rules take effect.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { adminPolicy, definitionName, podsOf, policyDefinition } from "./admin-policies.ts";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const namespace = "policies";
const others = "policies-others";
/** Ports of the servers in every pod. */
const ports = [8080, 9000, 9090] as const;

const serve = `mkdir -p /www; hostname >/www/index.html
${ports.map((port) => `httpd -p ${port} -h /www`).join("\n")}`;
const ofCell = { volumes: [{ name: "cell", hostPath: { path: "/" } }] };

function pod(name: string, script: string, container: object = {}): object {
  const made = shellPod(name, script, ofCell, {
    volumeMounts: [{ name: "cell", mountPath: "/cell" }],
    ...container,
  }) as { metadata: object };
  return { ...made, metadata: { ...made.metadata, labels: { name } } };
}

/** A pod in the other namespace. Its answers show that it can be reached. */
const visitor = "visitor";
const admin = ["BaselineAdminNetworkPolicy", "ClusterNetworkPolicy"] as const;

describe("network policies", () => {
  let kube: Cluster;
  let elsewhere: Cluster;
  const podIp: Record<string, string> = {};

  before(async () => {
    kube = await cluster(namespace);
    elsewhere = await cluster(others);
    await kube.ok("label", "namespace", others, "team=blue", "--overwrite");
    const names = ["server", "client"];
    const containerPorts = [
      { name: "http", containerPort: 8080 },
      { name: "metrics", containerPort: 9090 },
    ];
    await kube.apply(
      pod("server", `${serve}\nexec sleep 100000`, { ports: containerPorts }),
      pod("client", `${serve}\nexec sleep 100000`),
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "server" },
        spec: {
          selector: { name: "server" },
          ports: [
            { name: "http", port: 80, targetPort: "http" },
            { name: "metrics", port: 8080, targetPort: "metrics" },
          ],
        },
      },
    );
    await elsewhere.apply(pod(visitor, `${serve}\nexec sleep 100000`));
    const wait = ["wait", "--for=condition=Ready", "--timeout=240s"];
    await kube.ok(...wait, ...names.map((name) => `pod/${name}`));
    await elsewhere.ok(...wait, `pod/${visitor}`);
    for (const name of [...names, visitor]) podIp[name] = await show("pod", name, ".status.podIP");
    await reached("client", "server", ports);
    await reached(visitor, "server", ports);
  });

  after(async () => {
    await kube.ok("delete", "networkpolicy", "--all");
    for (const kind of admin)
      await kube.ok("delete", "crd", definitionName(kind), "--ignore-not-found");
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
    await elsewhere.ok("delete", "pod", "--all", "--timeout=120s");
  });

  const clusterOf = (name: string): Cluster => (name === visitor ? elsewhere : kube);
  const show = async (what: string, name: string, field: string): Promise<string> =>
    await clusterOf(name).ok("get", what, name, "-o", `jsonpath={${field}}`);
  const within = async (name: string, script: string): Promise<string> =>
    (await clusterOf(name).ok("exec", name, "--", "sh", "-c", `${script} 2>&1; true`)).trim();

  /** Which of these addresses with ports a pod can connect to. */
  const open = async (from: string, targets: readonly string[]): Promise<readonly string[]> => {
    const tries = targets.map((target) => {
      const [host, port] = target.split(":");
      return `(nc -w 3 ${host} ${port} </dev/null >/dev/null 2>&1 && echo ${target}) &`;
    });
    const said = await within(from, `${tries.join(" ")} wait`);
    return targets.filter((target) => said.split("\n").includes(target));
  };
  /** Waits until a pod can reach exactly these ports of another one. */
  const reached = async (from: string, to: string, wanted: readonly number[]): Promise<void> => {
    const targets = ports.map((port) => `${podIp[to]}:${port}`);
    const expected = wanted.map((port) => `${podIp[to]}:${port}`);
    let last: readonly string[] = [];
    await eventually(`${from} reaches ${expected.join(", ")} of ${to} alone`, async () => {
      last = await open(from, targets);
      return last.join() === expected.join();
    }).catch((error: unknown) => {
      throw new Error(`${from} reaches ${last.join(", ")}`, { cause: error });
    });
  };

  /** Replaces the namespace's only policy. */
  const apply = async (spec: object): Promise<void> =>
    await kube.apply({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "it" },
      spec,
    });
  const remove = async (): Promise<void> =>
    void (await kube.ok("delete", "networkpolicy", "it", "--ignore-not-found"));
  const ofServer = { podSelector: { matchLabels: { name: "server" } } };
  const ingress = async (...rules: readonly object[]): Promise<void> =>
    await apply({ ...ofServer, policyTypes: ["Ingress"], ingress: rules });

  it("let namespaces in by their labels, as these are", async () => {
    const blue = { namespaceSelector: { matchLabels: { team: "blue" } } };
    await ingress({ from: [blue] });
    await reached("client", "server", []);
    await reached(visitor, "server", ports);
    await kube.ok("label", "namespace", others, "team=red", "--overwrite");
    await reached(visitor, "server", []);
    await kube.ok("label", "namespace", others, "team=blue", "--overwrite");
    await reached(visitor, "server", ports);
    // Both selectors of a peer must match.
    const podSelector = { matchLabels: { name: "somebody" } };
    await ingress({ from: [{ ...blue, podSelector }] });
    await reached(visitor, "server", []);
  });

  it("let blocks of addresses in but for their exceptions", async () => {
    const block = { cidr: own.networkRange, except: [`${podIp["client"]}/32`] };
    await ingress({ from: [{ ipBlock: block }] });
    await reached(visitor, "server", ports);
    await reached("client", "server", []);
  });

  it("open ports by name and by range", async () => {
    await ingress({ ports: [{ port: "metrics" }] });
    await reached("client", "server", [9090]);
    await ingress({ ports: [{ port: 8999, endPort: 9001 }, { port: "http" }] });
    await reached("client", "server", [8080, 9000]);
    await ingress({ ports: [{ port: 9000, endPort: 9100 }] });
    await reached("client", "server", [9000, 9090]);
    // Policies apply to the endpoint's port, not to that of the Service.
    const address = await show("service", "server", ".spec.clusterIP");
    const targets = [`${address}:80`, `${address}:8080`];
    await eventually(
      "the Service's other port",
      async () => (await open("client", targets)).join(" ") === targets[1],
    );
  });

  it("restrict what a pod sends, by peers, blocks, names and ranges", async () => {
    const egress = async (...rules: readonly object[]): Promise<void> =>
      await apply({
        podSelector: { matchLabels: { name: "client" } },
        policyTypes: ["Egress"],
        egress: rules,
      });
    await egress({ to: [ofServer], ports: [{ port: "http" }] });
    await reached("client", "server", [8080]);
    await reached("client", visitor, []);
    // Connections from others to it are not restricted, and its responses pass.
    await reached("server", "client", ports);
    await egress({
      to: [{ ipBlock: { cidr: own.networkRange, except: [`${podIp["server"]}/32`] } }],
      ports: [{ port: 9000, endPort: 9090 }],
    });
    await reached("client", visitor, [9000, 9090]);
    await reached("client", "server", []);
  });

  it("are in force before a pod sends its first packet", async () => {
    const url = `http://${podIp["server"]}:8080/`;
    const asking = `
for i in $(seq 10); do wget -qT1 -O- ${url} && echo reached || echo refused; done; echo done
exec sleep 100000`;
    const first = (name: string): object => pod(name, asking);
    await apply({
      podSelector: { matchLabels: { name: "closed" } },
      policyTypes: ["Egress"],
      egress: [],
    });
    await reached("client", "server", ports);
    await kube.apply(first("closed"), first("open"));
    const log = async (name: string): Promise<readonly string[]> => {
      await eventually(`the log of ${name}`, async () =>
        (await kube.kubectl("logs", name)).stdout.includes("done"),
      );
      const lines = (await kube.ok("logs", name)).split("\n");
      return lines.filter((line) => line === "reached" || line === "refused");
    };
    // The first request of the other pod gets through.
    assert.equal((await log("open"))[0], "reached");
    assert.deepEqual(
      await log("closed"),
      Array.from({ length: 10 }, () => "refused"),
    );
    await remove();
    await eventually(
      "the end of the policy",
      async () => (await within("closed", `wget -qT3 -O- ${url}`)) === "server",
    );
    await kube.ok("delete", "pod", "closed", "open", "--wait=false");
  });

  it("of administrators come before and behind those of namespaces", async () => {
    for (const kind of admin) await kube.apply(policyDefinition(kind));
    const definitions = admin.map((kind) => `crd/${definitionName(kind)}`);
    await kube.ok("wait", "--for=condition=Established", ...definitions, "--timeout=60s");
    const put = async (...[kind, name, spec]: Parameters<typeof adminPolicy>): Promise<void> =>
      await eventually(
        `the API of ${kind}`,
        async () => (await kube.tryApply(adminPolicy(kind, name, spec))).status === 0,
      );
    const subject = podsOf(namespace, { name: "server" });
    const client = podsOf(namespace, { name: "client" });
    const guest = podsOf(others, { name: visitor });
    const deny = (...from: readonly object[]): object => ({ action: "Deny", from });
    await put("BaselineAdminNetworkPolicy", "default", { subject, ingress: [deny(client)] });
    await reached("client", "server", []);
    await reached(visitor, "server", ports);
    // A NetworkPolicy takes precedence over the baseline.
    await ingress({ from: [{ podSelector: {} }] });
    await reached("client", "server", ports);
    await reached(visitor, "server", []);
    const cluster = "ClusterNetworkPolicy";
    const protocols = [{ tcp: { destinationPort: { range: { start: 9000, end: 9090 } } } }];
    await put(cluster, "first", {
      tier: "Admin",
      priority: 1,
      subject,
      ingress: [
        { action: "Accept", from: [guest], protocols },
        { action: "Pass", from: [client], protocols },
        deny(client),
      ],
    });
    await reached(visitor, "server", [9000, 9090]);
    await reached("client", "server", [9000, 9090]);
    await kube.ok("delete", cluster, "first");
    await remove();
    await kube.ok("delete", "BaselineAdminNetworkPolicy", "default");
    await reached("client", "server", ports);
    await put(cluster, "last", { tier: "Baseline", priority: 1, subject, ingress: [deny(guest)] });
    await reached(visitor, "server", []);
    await reached("client", "server", ports);
    for (const each of definitions) await kube.ok("delete", each, "--timeout=60s");
    await reached(visitor, "server", ports);
  });

  it("stay as they were when a cell cannot apply a change, which an event of the pod says", async () => {
    await ingress();
    await reached("client", "server", []);
    const nft = "/cell/usr/sbin/nft";
    const broken = `#!/bin/sh\\necho no rules today >&2; exit 1\\n`;
    await within("server", `mv ${nft} ${nft}.away; printf '${broken}' >${nft}; chmod 755 ${nft}`);
    try {
      await ingress({});
      const flags = ["--field-selector=involvedObject.name=server,reason=NetworkNotReady"];
      const path = "jsonpath={.items[*].message}";
      await eventually("the event", async () =>
        (await kube.ok("get", "events", ...flags, "-o", path)).includes("no rules today"),
      );
      assert.deepEqual(await open("client", [`${podIp["server"]}:8080`]), []);
      assert.equal(await show("pod", "server", ".status.phase"), "Running");
    } finally {
      await within("server", `mv ${nft}.away ${nft}`);
    }
    await reached("client", "server", ports);
    await remove();
  });
});
