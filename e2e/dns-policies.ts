import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually, killProvider, shellPod, type Cluster } from "./cluster.ts";

/** What the tests of pods' `dnsPolicy` need from a cluster: the Service `web`, whose pods answer `members-` and a number. */
export interface DnsPolicyCluster {
  readonly kube: () => Cluster;
  /** State folder of the cluster. */
  readonly folder: string;
  /** The ClusterIP of the name server. */
  readonly nameServer: string;
  /** The name server of the cluster's machines. */
  readonly ofMachines: string;
  /** Output of a shell command in a pod. */
  readonly within: (script: string, pod?: string) => Promise<string>;
}

const idle = "exec sleep 100000";
const given = {
  nameservers: ["192.0.2.53", "192.0.2.54", "192.0.2.55"],
  searches: Array.from({ length: 32 }, (_, index) => `s${index + 1}.example`),
};

/** The pods that the tests use. */
export const dnsPolicyPods: readonly object[] = [
  shellPod("hosted", idle, {
    hostNetwork: true,
    dnsPolicy: "ClusterFirstWithHostNet",
    dnsConfig: given,
  }),
  shellPod("outside", idle, { dnsPolicy: "Default" }),
];

/** Tests of pods' `dnsPolicy` and its events. The last one removes the cluster's name server permanently. */
export function testDnsPolicies(cluster: DnsPolicyCluster): void {
  const { kube, folder, nameServer, ofMachines, within } = cluster;
  const ready = async (pod: string): Promise<void> => {
    await kube().ok("wait", "--for=condition=Ready", `pod/${pod}`, "--timeout=240s");
  };
  const events = async (pod: string, reason: string): Promise<readonly string[]> => {
    const selector = `involvedObject.name=${pod},reason=${reason}`;
    const messages = 'jsonpath={range .items[*]}{.message}{"\\n"}{end}';
    const said = await kube().ok("get", "events", "--field-selector", selector, "-o", messages);
    return said.split("\n").slice(0, -1).sort();
  };

  it("are the cluster's for a pod with the machine's network that wants them, within limits and with events", async () => {
    await ready("hosted");
    const servers = [nameServer, ...given.nameservers.slice(0, 2)];
    const own = ["dns.svc.cluster.local", "svc.cluster.local", "cluster.local"];
    const searches = [...own, ...given.searches.slice(0, 29)].join(" ");
    assert.equal(
      await within("cat /etc/resolv.conf", "hosted"),
      `${servers.map((server) => `nameserver ${server}\n`).join("")}search ${searches}\noptions ndots:5\n`,
    );
    assert.match(await within("wget -qT9 -O- http://web/", "hosted"), /^members-[01]\n$/);
    await eventually(
      "both events",
      async () => (await events("hosted", "DNSConfigForming")).length > 1,
    );
    assert.deepEqual(await events("hosted", "DNSConfigForming"), [
      `Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ${servers.join(" ")}`,
      `Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${searches}`,
    ]);
  });

  it("are those of its machine for a pod with the policy Default", async () => {
    await ready("outside");
    assert.equal(await within("cat /etc/resolv.conf", "outside"), `nameserver ${ofMachines}\n`);
    assert.match(await within("wget -qT9 -O- http://web/", "outside"), /bad address/);
    for (const reason of ["DNSConfigForming", "MissingClusterDNS"])
      assert.deepEqual(await events("outside", reason), []);
  });

  it("are those of its machine, with an event, where the cluster has none", async () => {
    await kube().ok("delete", "service", "kube-dns", "--namespace=kube-system");
    await killProvider(folder);
    await kube().apply(shellPod("nameless", idle));
    await ready("nameless");
    assert.equal(await within("cat /etc/resolv.conf", "nameless"), `nameserver ${ofMachines}\n`);
    const uid = await kube().ok("get", "pod", "nameless", "-o", "jsonpath={.metadata.uid}");
    await eventually("the event", async () => {
      const [message = "", ...others] = await events("nameless", "MissingClusterDNS");
      assert.deepEqual(others, []);
      return message.includes(`"nameless_dns(${uid})"`) && message.includes('"Default" policy');
    });
  });
}
