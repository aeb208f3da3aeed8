import assert from "node:assert/strict";
import { Resolver } from "node:dns/promises";
import { rmSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import {
  cluster,
  emptyFolder,
  eventually,
  kipCommand,
  run,
  shellPod,
  stateDir,
  type Cluster,
} from "./cluster.ts";
import { dnsPolicyPods, testDnsPolicies } from "./dns-policies.ts";
import { testDualStack } from "./dual-stack.ts";
import { startNameServer } from "./name-server.ts";

const work = `${stateDir}-dns`;
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
    "--network-range=198.18.236.0/22,fd6b:6970:e2e::/64",
    "--service-range=10.117.0.0/16,fd6b:6970:e2e:1::/112",
    "--node-name=kip-e2e-dns",
    `--resolver=${resolver.host}:${resolver.port}`,
  ],
};

const serve = "mkdir -p /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www";

/**
 * A program that verifies TLS. It runs on the cell's Node, because the demo image does not contain Node, and resolves names
 * like the pod.
 */
const askApi = `
lib=/cell/usr/lib/x86_64-linux-gnu
credentials=/var/run/secrets/kubernetes.io/serviceaccount
export TOKEN="$(cat $credentials/token)" CA="$(cat $credentials/ca.crt)"
exec $lib/ld-linux-x86-64.so.2 --library-path $lib /cell/usr/lib/kip/node -e '
const { CA: ca, TOKEN } = process.env;
const headers = { authorization: "Bearer " + TOKEN };
require("node:https").get("https://kubernetes.default.svc/version", { ca, headers }, (answer) => {
  answer.setEncoding("utf8").on("data", (text) => process.stdout.write(text));
}).on("error", (error) => console.log(String(error)));'`;

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
    await emptyFolder(work, clusterFlags);
    kube = await cluster("dns", flags);
    const ports = [{ name: "http", port: 80, targetPort: 8080 }];
    const selector = { app: "members" };
    await kube.apply(
      members,
      ...dnsPolicyPods,
      service("members", { clusterIP: "None", selector, ports: [{ name: "http", port: 8080 }] }),
      service("web", { selector, ports }),
      service("elsewhere", { type: "ExternalName", externalName: "server.outside.test" }),
      shellPod(
        "client",
        serve,
        { volumes: [{ name: "cell", hostPath: { path: "/" } }] },
        {
          ports: [{ containerPort: 8080, hostPort: 8081 }],
          volumeMounts: [{ name: "cell", mountPath: "/cell" }],
          env: [{ name: "POD_IPS", valueFrom: { fieldRef: { fieldPath: "status.podIPs" } } }],
        },
      ),
    );
    await kube.ok("rollout", "status", "statefulset/members", "--timeout=240s");
    await kube.ok("wait", "--for=condition=Ready", "pod/client", "--timeout=240s");
  });
  after(async () => {
    const down = await kipCommand("down", ...clusterFlags);
    rmSync(work, { recursive: true });
    assert.equal(down.status, 0, down.stderr);
    // Nothing remains on the computer, including the name server.
    const own = `readlink /proc/[0-9]*/cwd | grep ^${work}/`;
    const left = await run("sh", ["-c", `ip route; ip -6 route; ${own}; true`]);
    assert.doesNotMatch(left.stdout, /10\.117\.0\.0|fd6b:6970:e2e/);
    assert.ok(!left.stdout.includes(work), left.stdout);
  });

  /** Output of a shell command in the pod, even if it fails. */
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

  it("are answered by a program that may list and watch what has names, and nothing else", async () => {
    const may = async (verb: string, resource: string): Promise<string> => {
      const user = ["--as=system:coredns", "--all-namespaces"];
      return (await kube.kubectl("auth", "can-i", verb, resource, ...user)).stdout.trim();
    };
    for (const resource of ["services", "endpointslices.discovery.k8s.io", "pods", "namespaces"])
      assert.equal(await may("watch", resource), "yes", resource);
    for (const [verb, resource] of [
      ["list", "secrets"],
      ["list", "configmaps"],
      ["get", "pods"],
      ["update", "services"],
    ] as const)
      assert.equal(await may(verb, resource), "no", `${verb} ${resource}`);
    const { stdout } = await run("ps", ["-eo", "uid,args"]);
    assert.match(stdout, /^ *1879075581 \.\/coredns /m);
  });

  it("lead to all pods of a headless Service, and to each member of a StatefulSet", async () => {
    const said = await within("nslookup members.dns.svc.cluster.local");
    for (const address of await podAddresses()) assert.ok(said.includes(`: ${address}\n`), said);
    // From one member to another, by the pod's search list.
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

  it("are answered to this computer, too, which reaches Services as pods do", async () => {
    const names = new Resolver({ timeout: 5000, tries: 1 });
    names.setServers(["10.117.0.10"]);
    const [address = ""] = await names.resolve4("web.dns.svc.cluster.local");
    assert.equal(address, await show("service", "web", ".spec.clusterIP"));
    const answer = await fetch(`http://${address}/`, { signal: AbortSignal.timeout(20_000) });
    assert.match(await answer.text(), /^members-[01]\n$/);
    const proxied = await kube.ok(
      "get",
      "--raw",
      "/api/v1/namespaces/dns/services/web:http/proxy/",
    );
    assert.match(proxied, /^members-[01]\n$/);
  });

  it("lead this computer to a pod that a policy closes, as probes of a node, and no other pod", async () => {
    const closed = { podSelector: {}, policyTypes: ["Ingress"] };
    const policy = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy" };
    await kube.apply({ ...policy, metadata: { name: "closed" }, spec: closed });
    try {
      const ask = "wget -qT2 -O- http://web/";
      await eventually("the policy", async () => (await within(ask)).includes("timed out"), 30_000);
      const address = await show("service", "web", ".spec.clusterIP");
      const answer = await fetch(`http://${address}/`, { signal: AbortSignal.timeout(20_000) });
      assert.match(await answer.text(), /^members-[01]\n$/);
    } finally {
      await kube.ok("delete", "networkpolicy", "closed");
    }
    const open = "wget -qT2 -O- http://web/";
    await eventually("the end of the policy", async () =>
      (await within(open)).startsWith("members-"),
    );
  });

  it("lead a pod to a Service, and to the API server with its token", async () => {
    assert.match(await within("wget -qT9 -O- http://web/"), /^members-[01]\n$/);
    const version = JSON.parse(await within(askApi)) as { gitVersion?: string };
    assert.match(version.gitVersion ?? "", /^v1\./);
  });

  const nameServer = "10.117.0.10";
  testDualStack({ kube: () => kube, nameServer, within, show });
  const ofMachines = "198.18.236.2";
  testDnsPolicies({ kube: () => kube, folder: work, nameServer, ofMachines, within });
});
