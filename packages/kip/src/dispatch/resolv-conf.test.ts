import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { resolvConf, type DnsSettings } from "./resolv-conf.ts";

const settings = {
  clusterDns: ["10.96.0.10"],
  clusterDomain: "cluster.local",
  hostNameservers: ["198.18.0.2"],
  hostSearchDomains: ["example.org"],
};
const pod = podWith({ metadata: { name: "web-0", namespace: "shop" } });

function textOf(of: Pod, dns: DnsSettings): string {
  return resolvConf(of, dns).text;
}

describe("resolvConf()", () => {
  it("follows ClusterFirst", () => {
    assert.equal(
      textOf(pod, settings),
      "nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local example.org\noptions ndots:5\n",
    );
  });

  it("falls back to the host's servers where the cluster has no DNS", () => {
    assert.equal(
      textOf(pod, { ...settings, clusterDns: [] }),
      "nameserver 198.18.0.2\nsearch example.org\n",
    );
  });

  it("takes only dnsConfig with policy None", () => {
    const dnsConfig = {
      nameservers: ["1.1.1.1"],
      searches: ["a"],
      options: [{ name: "ndots", value: "2" }, { name: "rotate" }],
    };
    const own = { ...pod, spec: { containers: [], dnsPolicy: "None", dnsConfig } };
    assert.equal(textOf(own, settings), "nameserver 1.1.1.1\nsearch a\noptions ndots:2 rotate\n");
  });

  it("gives host-network pods the host's servers unless they ask otherwise", () => {
    const spec = { containers: [], hostNetwork: true };
    assert.match(textOf({ ...pod, spec }, settings), /^nameserver 198\.18\.0\.2\n/);
    const withCluster = { ...spec, dnsPolicy: "ClusterFirstWithHostNet" };
    assert.match(textOf({ ...pod, spec: withCluster }, settings), /^nameserver 10\.96\.0\.10\n/);
  });

  it("writes an option without a value as its name alone", () => {
    const dnsConfig = { options: [{ name: "rotate", value: "" }, { name: "ndots" }] };
    assert.match(
      textOf({ ...pod, spec: { containers: [], dnsConfig } }, settings),
      /\noptions ndots rotate\n$/,
    );
  });

  it("says in the kubelet's words that the cluster has no DNS, to pods that want it", () => {
    const none = { ...settings, clusterDns: [] };
    const [problem, ...more] = resolvConf(pod, none).problems;
    assert.deepEqual(more, []);
    assert.equal(problem?.reason, "MissingClusterDNS");
    assert.match(
      problem.message,
      /^pod: "web-0_shop\(.*\)"\. kubelet does not have ClusterDNS IP .* Falling back to "Default" policy\.$/,
    );
    for (const more of [{ dnsPolicy: "Default" }, { dnsPolicy: "None" }, { hostNetwork: true }])
      assert.deepEqual(
        resolvConf({ ...pod, spec: { containers: [], ...more } }, none).problems,
        [],
      );
  });

  it("leaves out servers and search paths beyond a resolver's limits, and says so", () => {
    const made = (dnsConfig: { nameservers?: string[]; searches?: string[] }) =>
      resolvConf({ ...pod, spec: { containers: [], dnsPolicy: "None", dnsConfig } }, settings);
    const three = ["1.1.1.1", "1.1.1.2", "1.1.1.3"];
    assert.deepEqual(made({ nameservers: [...three, "1.1.1.1"] }).problems, []);
    const servers = made({ nameservers: [...three, "1.1.1.4"] });
    assert.deepEqual(servers.problems, [
      {
        reason: "DNSConfigForming",
        message:
          "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 1.1.1.2 1.1.1.3",
      },
    ]);
    const short = Array.from({ length: 33 }, (_, i) => `d${i}`);
    assert.match(made({ searches: short }).text, /^search d0 .* d31\n$/);
    const long = Array.from({ length: 10 }, (_, i) => `${i}`.repeat(250));
    const paths = made({ nameservers: [], searches: [...long, "x".repeat(254)] });
    assert.equal(paths.text, `search ${long.slice(0, 8).join(" ")}\n`);
    assert.match(
      paths.problems[0]?.message ?? "",
      /^Search Line limits were exceeded, some search paths have been omitted, the applied search line is: 0/,
    );
  });
});
