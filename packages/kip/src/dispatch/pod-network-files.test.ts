import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { etcHosts, kernelHostname, podHostname, resolvConf } from "./pod-network-files.ts";

const settings = {
  clusterDns: ["10.96.0.10"],
  clusterDomain: "cluster.local",
  hostNameservers: ["198.18.0.2"],
  hostSearchDomains: ["example.org"],
};
const pod = podWith({ metadata: { name: "web-0", namespace: "shop" } });

describe("resolvConf()", () => {
  it("follows ClusterFirst", () => {
    assert.equal(
      resolvConf(pod, settings),
      "nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local example.org\noptions ndots:5\n",
    );
  });

  it("falls back to the host's servers where the cluster has no DNS", () => {
    assert.equal(
      resolvConf(pod, { ...settings, clusterDns: [] }),
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
    assert.equal(
      resolvConf(own, settings),
      "nameserver 1.1.1.1\nsearch a\noptions ndots:2 rotate\n",
    );
  });

  it("gives host-network pods the host's servers unless they ask otherwise", () => {
    const spec = { containers: [], hostNetwork: true };
    assert.match(resolvConf({ ...pod, spec }, settings), /^nameserver 198\.18\.0\.2\n/);
    const withCluster = { ...spec, dnsPolicy: "ClusterFirstWithHostNet" };
    assert.match(
      resolvConf({ ...pod, spec: withCluster }, settings),
      /^nameserver 10\.96\.0\.10\n/,
    );
  });
});

describe("etcHosts()", () => {
  it("has the pod's names and its aliases", () => {
    const spec = {
      containers: [],
      subdomain: "db",
      hostAliases: [{ ip: "10.1.1.1", hostnames: ["a", "b"] }],
    };
    const text = etcHosts({ ...pod, spec }, ["198.19.0.7", "fd6b::7"], "cluster.local");
    assert.match(text, /^fd6b::7\tweb-0\.db\.shop\.svc\.cluster\.local\tweb-0$/m);
    assert.match(text, /^198\.19\.0\.7\tweb-0\.db\.shop\.svc\.cluster\.local\tweb-0$/m);
    assert.match(text, /^10\.1\.1\.1\ta\tb$/m);
  });
});

describe("etcHosts() of a pod with the network of its cell", () => {
  it("leaves the middle to the cell's own file", () => {
    const hostAliases = [{ ip: "10.1.1.1", hostnames: ["a", "b"] }];
    const spec = { containers: [], hostNetwork: true };
    const header = "# Kubernetes-managed hosts file (host network).\n";
    assert.equal(etcHosts({ ...pod, spec }, ["198.19.0.7"], "cluster.local"), header);
    assert.equal(
      etcHosts({ ...pod, spec: { ...spec, hostAliases } }, ["198.19.0.7"], "cluster.local"),
      `${header}\n# Entries added by HostAliases.\n10.1.1.1\ta\tb\n`,
    );
  });
});

describe("podHostname()", () => {
  it("cuts long names without leaving a dash at the end", () => {
    const name = `${"x".repeat(62)}-abc`;
    assert.equal(podHostname(podWith({ metadata: { name } })), "x".repeat(62));
  });
});

describe("kernelHostname()", () => {
  it("is the full name of a pod that wants that and has one", () => {
    const name = (spec: object): string =>
      kernelHostname({ ...pod, spec: { containers: [], ...spec } }, "cluster.local");
    const full = { setHostnameAsFQDN: true };
    assert.equal(name({ ...full, subdomain: "db" }), "web-0.db.shop.svc.cluster.local");
    assert.equal(name({ subdomain: "db" }), "web-0");
    assert.equal(name(full), "web-0");
  });
});
