import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions, uselessOptions } from "@kip/base";
import { clusterDnsOf, nodeIpsOf, ownNamespace, providerOptions } from "./provider-options.ts";

/** Arguments and variables from the original's manifests, with the values that the kubelet fills in. */
const statefulSet = {
  args: [
    "--provider",
    "kip",
    "--provider-config",
    "/etc/kip/provider.yaml",
    "--network-agent-secret",
    "kube-system/kip-network-agent",
    "--disable-taint",
    "--klog.logtostderr",
    "--klog.v=2",
    "--metrics-addr=:10255",
    "--nodename=kip-provider-0",
  ],
  env: {
    NODE_NAME: "worker",
    VKUBELET_NODE_NAME: "kip-provider-0",
    APISERVER_CERT_LOCATION: "/opt/kip/data/kubelet-pki/kip-provider-0.crt",
    APISERVER_KEY_LOCATION: "/opt/kip/data/kubelet-pki/kip-provider-0.key",
  },
};

const originalFlags =
  "debug-server network-agent-secret network-agent-kubeconfig cluster-dns instance-data-path provider provider-config nodename kubeconfig namespace cluster-domain os metrics-addr taint disable-taint pod-sync-workers enable-node-lease full-resync-period startup-timeout stream-idle-timeout stream-creation-timeout kube-api-qps kube-api-burst trace-exporter trace-service-name trace-tag trace-sample-rate trace-zpages-addr log-level klog.v klog.logtostderr klog.alsologtostderr klog.stderrthreshold klog.vmodule klog.log_dir klog.log_file klog.skip_headers klog.log_backtrace_at".split(
    " ",
  );

describe("providerOptions", () => {
  it("leaves KUBECONFIG to the client, which takes a list of files", () => {
    const env = { KUBECONFIG: "/nowhere:/etc/kubeconfig" };
    assert.equal(parseOptions(providerOptions, [], env).text("kubeconfig"), undefined);
    const given = parseOptions(providerOptions, ["--kubeconfig", "/etc/other"], env);
    assert.equal(given.text("kubeconfig"), "/etc/other");
  });

  it("takes the arguments and variables of the original's StatefulSet", () => {
    const options = parseOptions(providerOptions, statefulSet.args, statefulSet.env);
    assert.equal(options.text("provider-config"), "/etc/kip/provider.yaml");
    assert.equal(options.text("nodename"), "kip-provider-0");
    assert.equal(options.text("metrics-addr"), ":10255");
    assert.equal(options.text("klog.v"), "2");
    assert.equal(options.isSet("disable-taint"), true);
    assert.equal(options.text("tls-cert-file"), "/opt/kip/data/kubelet-pki/kip-provider-0.crt");
    assert.equal(options.text("provider"), "kip");
    assert.deepEqual(uselessOptions(providerOptions, options), [
      "--network-agent-secret is deprecated and has no effect: kip sends cells the Services and policies that they need. Cells get no token for the cluster",
    ]);
  });

  it("has every flag of the original, and of Virtual Kubelet", () => {
    const flags = new Set(providerOptions.map(({ flag }) => flag));
    const missing = originalFlags.filter((flag) => !flags.has(flag));
    assert.deepEqual(missing, []);
  });

  it("takes either spelling of the node's name in the environment", () => {
    for (const name of ["DEFAULTNODE_NAME", "DEFAULT_NODE_NAME"])
      assert.equal(parseOptions(providerOptions, [], { [name]: "n" }).text("nodename"), "n");
  });
});

describe("nodeIpsOf()", () => {
  const read = async (text: string, own?: string) =>
    await nodeIpsOf(parseOptions(providerOptions, [`--node-ip=${text}`], {}), async () => own);

  it("takes an address, or one of each family", async () => {
    assert.deepEqual(await read("192.0.2.1"), ["192.0.2.1"]);
    assert.deepEqual(await read("192.0.2.1, 2001:db8::1"), ["192.0.2.1", "2001:db8::1"]);
  });

  it("refuses names, and two addresses of one family", async () => {
    for (const text of ["node.example", "192.0.2.1,", "192.0.2.1,192.0.2.2"])
      await assert.rejects(read(text), { code: "OPTION_INVALID" });
  });

  it("takes the machine's own address when none is given", async () => {
    assert.deepEqual(await read("", "192.0.2.7"), ["192.0.2.7"]);
    await assert.rejects(read(""), { code: "OPTION_MISSING" });
  });
});

describe("clusterDnsOf()", () => {
  const read = (...args: readonly string[]) =>
    clusterDnsOf(parseOptions(providerOptions, args, {}));

  it("takes addresses, one by one or with commas", () => {
    assert.equal(read(), undefined);
    assert.deepEqual(read("--cluster-dns=10.96.0.10"), ["10.96.0.10"]);
    const three = ["--cluster-dns=10.96.0.10,fd00::10", "--cluster-dns", "10.0.0.2"];
    assert.deepEqual(read(...three), ["10.96.0.10", "fd00::10", "10.0.0.2"]);
    assert.throws(() => read("--cluster-dns=kube-dns"), { code: "OPTION_INVALID" });
  });
});

describe("ownNamespace()", () => {
  it("is the pod's, unless another is named, and the default outside of a pod", () => {
    const read = (source: string, ...args: readonly string[]) =>
      ownNamespace(parseOptions(providerOptions, args, {}), { source, namespace: "of-pod" });
    assert.equal(read("in-cluster"), "of-pod");
    assert.equal(read("in-cluster", "--own-namespace=named"), "named");
    assert.equal(read("/root/.kube/config"), undefined);
  });
});
