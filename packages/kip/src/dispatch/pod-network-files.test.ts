import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { etcHosts, kernelHostname, podHostname } from "./pod-network-files.ts";

const pod = podWith({ metadata: { name: "web-0", namespace: "shop" } });

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

  it("is the name that the pod has in place of all others", () => {
    const spec = { containers: [], hostname: "a", subdomain: "db", hostnameOverride: "x.example" };
    const other = { ...pod, spec: { ...spec, setHostnameAsFQDN: true } };
    assert.equal(kernelHostname(other, "cluster.local"), "x.example");
    assert.match(etcHosts(other, ["10.0.0.1"], "cluster.local"), /^10\.0\.0\.1\tx\.example$/m);
  });
});
