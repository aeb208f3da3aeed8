import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { cluster, kipCommand, run, shellPod, type Cluster } from "./cluster.ts";
import { startNameServer } from "./name-server.ts";

const work = mkdtempSync(path.join(tmpdir(), "kip-dns-"));
const host = "198.18.236.1";
const resolver = { host, port: 15_353 };
const outside = "192.0.2.7";
const clusterFlags = [
  `--state-dir=${work}/state`,
  `--kubeconfig=${work}/kubeconfig`,
  "--namespace-name=kip-e2e-dns",
];
const flags = {
  status: clusterFlags,
  up: [
    ...clusterFlags,
    "--port=16743",
    "--registry-port=15743",
    "--network-range=198.18.236.0/22",
    "--service-range=10.117.0.0/16",
    "--node-name=kip-e2e-dns",
    `--resolver=${resolver.host}:${resolver.port}`,
  ],
};

const serve = "mkdir -p /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www";

function service(name: string, spec: object): object {
  return { apiVersion: "v1", kind: "Service", metadata: { name }, spec };
}

const members = {
  apiVersion: "apps/v1",
  kind: "StatefulSet",
  metadata: { name: "members" },
  spec: {
    serviceName: "members",
    replicas: 2,
    podManagementPolicy: "Parallel",
    selector: { matchLabels: { app: "members" } },
    template: {
      metadata: { labels: { app: "members" } },
      spec: (shellPod("members", serve) as { spec: object }).spec,
    },
  },
};

describe("names in a cluster", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("dns", flags);
    const ports = [{ name: "http", port: 80, targetPort: 8080 }];
    const selector = { app: "members" };
    await kube.apply(
      members,
      service("members", { clusterIP: "None", selector, ports: [{ name: "http", port: 8080 }] }),
      service("web", { selector, ports }),
      service("elsewhere", { type: "ExternalName", externalName: "server.outside.test" }),
      shellPod("client", "exec sleep 100000"),
    );
    await kube.ok("rollout", "status", "statefulset/members", "--timeout=240s");
    await kube.ok("wait", "--for=condition=Ready", "pod/client", "--timeout=240s");
  });
  after(async () => {
    const down = await kipCommand("down", ...clusterFlags);
    rmSync(work, { recursive: true });
    assert.equal(down.status, 0, down.stderr);
    // Nothing is left on the computer, the name server neither.
    const left = await run("sh", ["-c", "ip route; ps -eo args | grep '[.]/coredns'; true"]);
    assert.doesNotMatch(left.stdout, /10\.117\.0\.0/);
    assert.doesNotMatch(left.stdout, /coredns/);
  });

  /** What a shell command in the pod prints, whether or not it succeeds. */
  const within = async (script: string, pod = "client"): Promise<string> =>
    await kube.ok("exec", pod, "--", "sh", "-c", `${script} 2>&1; true`);
  const show = async (what: string, name: string, field: string): Promise<string> =>
    await kube.ok("get", what, name, "-o", `jsonpath={${field}}`);
  const podAddresses = async (): Promise<readonly string[]> =>
    await Promise.all(
      ["members-0", "members-1"].map(async (m) => await show("pod", m, ".status.podIP")),
    );

  it("are those of Services, forwards and back, and of their ports", async () => {
    const address = await show("service", "web", ".spec.clusterIP");
    assert.match(await within("nslookup web.dns.svc.cluster.local"), new RegExp(`: ${address}\n`));
    assert.match(
      await within("nslookup -type=srv _http._tcp.web.dns.svc.cluster.local"),
      /0 100 80 web\.dns\.svc\.cluster\.local/,
    );
    assert.match(await within(`nslookup ${address}`), /name = web\.dns\.svc\.cluster\.local/);
    assert.match(await within("nslookup missing.dns.svc.cluster.local"), /NXDOMAIN/);
  });

  it("lead to all pods of a headless Service, and to each member of a StatefulSet", async () => {
    const said = await within("nslookup members.dns.svc.cluster.local");
    for (const address of await podAddresses()) assert.ok(said.includes(`: ${address}\n`), said);
    // By the pod's search list, from member to member.
    const ask = "wget -qT9 -O- http://members-1.members:8080/";
    assert.equal(await within(ask, "members-0"), "members-1\n");
  });

  it("are answered outside for external names, and for all names that are not the cluster's", async () => {
    await using server = await startNameServer(resolver, outside);
    assert.match(await within("nslookup printer.outside.test"), new RegExp(`: ${outside}\n`));
    const said = await within("nslookup elsewhere.dns.svc.cluster.local");
    assert.match(said, /canonical name = server\.outside\.test/);
    assert.ok(said.includes(`: ${outside}\n`), said);
    assert.ok(server.asked.has("server.outside.test"));
    assert.ok(![...server.asked].some((name) => name.endsWith("cluster.local")));
  });
});
