import assert from "node:assert/strict";
import { Resolver } from "node:dns/promises";
import { it } from "node:test";
import { eventually, type Cluster } from "./cluster.ts";

/** What the dual-stack tests need from a cluster: the StatefulSet `members` and the pod `client`. */
export interface DualStackCluster {
  readonly kube: () => Cluster;
  /** The ClusterIP of the name server. */
  readonly nameServer: string;
  /** Output of a shell command in a pod. */
  readonly within: (script: string, pod?: string) => Promise<string>;
  readonly show: (what: string, name: string, field: string) => Promise<string>;
}

const v4 = /^\d+\.\d+\.\d+\.\d+$/;
const v6 = /^fd6b:[\da-f:]+$/;

/** Tests of IPv6 beside IPv4, in a cluster that other tests also use. */
export function testDualStack({ kube, nameServer, within, show }: DualStackCluster): void {
  const words = async (what: string, name: string, field: string): Promise<readonly string[]> =>
    (await show(what, name, field)).split(" ");
  const assertBoth = (addresses: readonly string[], what: string): void => {
    assert.equal(addresses.length, 2, `${what}: ${addresses.join(" ")}`);
    assert.match(addresses[0] ?? "", v4, what);
    assert.match(addresses[1] ?? "", v6, what);
  };
  const secondOf = async (pod: string): Promise<string> =>
    (await words("pod", pod, ".status.podIPs[*].ip"))[1] ?? "";
  const names = new Resolver({ timeout: 5000, tries: 1 });
  names.setServers([nameServer]);
  const service = (name: string, spec: object): object => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { selector: { app: "members" }, ports: [{ port: 80, targetPort: 8080 }], ...spec },
  });

  it("gives pods and the node an address of each family, and pods say so", async () => {
    assertBoth(await words("pod", "client", ".status.podIPs[*].ip"), "podIPs");
    assertBoth(await words("pod", "client", ".status.hostIPs[*].ip"), "hostIPs");
    const node = await show("pod", "client", ".spec.nodeName");
    const internal = '.status.addresses[?(@.type=="InternalIP")].address';
    assertBoth(await words("node", node, internal), "the node");
    const podIPs = await words("pod", "client", ".status.podIPs[*].ip");
    assert.equal((await within('echo "$POD_IPS"')).trim(), podIPs.join(","));
    const hosts = await within("cat /etc/hosts");
    for (const ip of podIPs) assert.ok(hosts.includes(`${ip}\tclient\n`), hosts);
  });

  it("leads a pod and this computer to another pod by IPv6", async () => {
    for (const member of ["members-0", "members-1"]) {
      const url = `http://[${await secondOf(member)}]:8080/`;
      assert.equal(await within(`wget -qT9 -O- ${url}`), `${member}\n`);
      const answer = await fetch(url, { signal: AbortSignal.timeout(20_000) });
      assert.equal(await answer.text(), `${member}\n`);
    }
  });

  it("leads a host port to its pod by each family", async () => {
    const [v4Host = "", v6Host = ""] = await words("pod", "client", ".status.hostIPs[*].ip");
    for (const host of [v4Host, `[${v6Host}]`])
      assert.equal(await within(`wget -qT9 -O- http://${host}:8081/`, "members-0"), "client\n");
  });

  it("has Services of both families and of IPv6 alone, with names forwards and back", async () => {
    await kube().apply(
      service("both", { ipFamilyPolicy: "RequireDualStack" }),
      service("preferred", { ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv6", "IPv4"] }),
      service("six", { ipFamilies: ["IPv6"] }),
    );
    assertBoth(await words("service", "both", ".spec.clusterIPs[*]"), "clusterIPs");
    for (const name of ["both", "preferred", "six"]) {
      const full = `${name}.dns.svc.cluster.local`;
      const addresses = await words("service", name, ".spec.clusterIPs[*]");
      const address = addresses.find((each) => v6.test(each)) ?? "";
      await eventually(full, async () =>
        (await ask(`http://[${address}]/`)).startsWith("members-"),
      );
      const answer = await fetch(`http://[${address}]/`, { signal: AbortSignal.timeout(20_000) });
      assert.match(await answer.text(), /^members-[01]\n$/);
      assert.deepEqual(await names.resolve6(full), [address]);
      assert.deepEqual(await names.reverse(address), [full]);
    }
    await assert.rejects(names.resolve4("six.dns.svc.cluster.local"), { code: "ENODATA" });
    assert.match(await within("wget -qT9 -O- http://six/"), /^members-[01]\n$/);
  });

  it("refuses at once what no pod serves by IPv6, also outside", async () => {
    await kube().apply(service("none", { ipFamilies: ["IPv6"], selector: { app: "none" } }));
    const address = await show("service", "none", ".spec.clusterIP");
    await eventually("the Service", async () =>
      (await ask(`http://[${address}]/`)).includes("refused"),
    );
    for (const closed of ["[fd00:ec2::254]"]) {
      const said = await ask(`http://${closed}/`);
      assert.match(said, /unreachable|denied|prohibited|Permission/, `${closed}: ${said}`);
    }
  });

  it("keeps to policies by IPv6, and lets blocks of addresses in", async () => {
    const url = `http://[${await secondOf("members-0")}]:8080/`;
    const policy = (ingress: readonly object[]): object => ({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "six" },
      spec: { podSelector: { matchLabels: { app: "members" } }, policyTypes: ["Ingress"], ingress },
    });
    await kube().apply(policy([]));
    try {
      await eventually("the policy", async () => (await ask(url)).includes("timed out"), 30_000);
      const cidr = `${await secondOf("client")}/128`;
      await kube().apply(policy([{ from: [{ ipBlock: { cidr } }] }]));
      await eventually("the block", async () => (await ask(url)) === "members-0\n", 30_000);
      const other = `http://${await show("pod", "members-0", ".status.podIP")}:8080/`;
      assert.match(await ask(other), /timed out/);
    } finally {
      await kube().ok("delete", "networkpolicy", "six");
    }
    await eventually("the end of the policy", async () => (await ask(url)) === "members-0\n");
  });

  async function ask(url: string): Promise<string> {
    return await within(`wget -qT2 -O- ${url}`);
  }
}
