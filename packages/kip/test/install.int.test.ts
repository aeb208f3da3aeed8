// The manifests of deploy/ are enough for kip: its account runs a pod on a simulated machine, with an agent on loopback.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { isCodedError, silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import {
  endSharedControlPlane,
  sharedControlPlane,
  tokenKubeconfig,
  type SharedControlPlane,
} from "@kip/control-plane/testing";
import {
  createApiClient,
  loadKubeConfig,
  namespaced,
  paths,
  type ApiClient,
  type KubeObject,
} from "@kip/k8s-client";
import type { Lease, Node, Pod } from "@kip/k8s-types";
import { createSigningRequest } from "@kip/pki";
import { eventually, temporaryFolder } from "@kip/testing";
import { createNodeUserClient, startNode } from "@kip/virtual-kubelet";
import { metricsText, noTracer, type Tracer } from "@kip/virtual-kubelet/telemetry";
import { installCells } from "../src/cluster-facts.ts";
import { decodeProviderConfig } from "../src/config/provider-config.ts";
import { dumpPath, type NodeDump } from "../src/inspect/node-dump.ts";
import { startKip, type RunningKip } from "../src/start-kip.ts";
import type { PodRef } from "../src/state/cell-state.ts";
import { evictPod } from "../src/store/evict-pod.ts";
import { openSimulatedCells } from "./simulated-cells.ts";

const manifests = path.join(import.meta.dirname, "../../../deploy/kustomize/base");
/** The name in the manifests, because the role contains it. */
const nodeName = "kip";
const folder = temporaryFolder();
const directory = path.join(folder.path, "plane");
const shared = { clock: systemClock, logger: silentLogger };

/** Ended spans with their traces. */
const spans: string[] = [];
const tracer: Tracer = {
  start: (name, _fields, { traceId } = {}) => ({
    ...noTracer.start(name),
    end: () => void spans.push(`${name} ${traceId}`),
  }),
};

const cells = openSimulatedCells();

describe("deploy/kustomize/base", { timeout: 300_000 }, () => {
  let plane: SharedControlPlane;
  let client: ApiClient;
  let nodeClient: ApiClient;
  let adminClient: ApiClient;
  let driver: CloudDriver;

  const start = async (namespace?: string): Promise<RunningKip> =>
    await startKip({
      ...shared,
      client,
      nodeClient,
      driver,
      config: decodeProviderConfig({
        cloud: { local: {} },
        cells: { bootImageSpec: { name: "cell" }, defaultInstanceType: "sim.1" },
      }),
      controllerID: "installed",
      nodeName,
      nodeIps: ["127.0.0.1"],
      namespace,
      clusterDns: [],
      logDir: path.join(folder.path, "logs"),
      tracer,
    });

  before(
    async () => {
      // Its own control plane, because the roles of the shared one's users have the same names.
      plane = await sharedControlPlane({ directory });
      await plane.kubectl(["apply", "-k", manifests]);
      // This process takes the Deployment's place.
      await plane.kubectl(["scale", "deployment/kip", "-n", "kip-system", "--replicas=0"]);
      const token = await plane.kubectl(["create", "token", "kip", "-n", "kip-system"]);
      const kubeconfig = path.join(folder.path, "kubeconfig");
      await writeFile(kubeconfig, tokenKubeconfig(plane, token.trim()));
      const config = await loadKubeConfig({ path: kubeconfig });
      client = createApiClient(config, { ...shared, userAgent: "kip/test" });
      nodeClient = createNodeUserClient(config, {
        ...shared,
        nodeName,
        userAgent: "kip/test",
      });
      const admin = await loadKubeConfig({ path: plane.kubeconfigPath });
      adminClient = createApiClient(admin, { ...shared, userAgent: "kip/test" });
      driver = cells.cloud.open({ owner: "installed" });
    },
    { timeout: 900_000 },
  );

  after(async () => {
    client?.close();
    nodeClient?.close();
    adminClient?.close();
    await driver?.[Symbol.asyncDispose]();
    await cells[Symbol.asyncDispose]();
    await plane?.[Symbol.asyncDispose]();
    await endSharedControlPlane(directory);
    folder.remove();
  });

  it("gives kip what it needs to run a pod, and to remove it", async () => {
    const namespace = await plane.createNamespace("install");
    const kubectl = async (...args: readonly string[]): Promise<string> =>
      await plane.kubectl(["-n", namespace, ...args]);
    await using kip = await start();
    const { provider } = kip;
    const clients = { client, nodeClient };
    await using _node = await startNode({ ...shared, ...clients, nodeName, provider, tracer });
    const { metadata } = await adminClient.get<KubeObject>(paths.nodes(nodeName));
    assert.equal(metadata.labels?.["kubernetes.io/role"], "agent");
    const toleration = [{ operator: "Exists" }];
    await kubectl("create", "secret", "generic", "of-the-pod", "--from-literal=key=value");
    const envFrom = [{ secretRef: { name: "of-the-pod" } }];
    const containers = [{ name: "web", image: "example.test/web:1", envFrom }];
    const overrides = { spec: { nodeName, tolerations: toleration, containers } };
    await kubectl(
      "run",
      "web",
      "--image=example.test/web:1",
      `--overrides=${JSON.stringify(overrides)}`,
    );
    await kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s");
    assert.match(await kubectl("get", "cells"), /^cell-\S+ +web +install\S* +kip /m);
    assert.equal((await driver.list()).length, 1);
    const uid = await kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}");
    const steps = ["cell.createCell", "cell.launch", "cell.dispatch", "agent.pull", "pod.start"];
    for (const step of steps) assert.ok(spans.includes(`${step} ${uid.replaceAll("-", "")}`), step);
    const figures = metricsText(provider.metricFamilies());
    assert.match(figures, /^kip_cells{phase="Claimed",.*} 1$/m);
    assert.match(figures, /^kip_pod_events_total{type="Normal",reason="CellLaunched"} 1$/m);
    assert.match(figures, /^kip_cell_start_phase_duration_seconds_count{phase="start",.*} 1$/m);
    assert.match(figures, /^kip_cloud_request_duration_seconds_count{operation="launch",.*} 1$/m);
    const signal = new AbortController().signal;
    const dump = JSON.parse((await provider.nodeLog(dumpPath, signal)) ?? "") as NodeDump;
    const [worker] = dump.pods;
    assert.deepEqual(
      [worker?.pod?.uid, worker?.phase, worker?.machine, worker?.isAgentConnected, worker?.steps],
      [uid, "Claimed", "running", true, []],
    );
    await kubectl("delete", "pod", "web", "--timeout=60s");
    assert.deepEqual(await driver.list(), []);
    assert.equal(await kubectl("get", "cells", "-o", "name"), "");
    const events = await kubectl("get", "events", "-o", "jsonpath={.items[*].reason}");
    assert.match(events, /CellLaunched.*CellReady/);
  });

  it("does not let kip read Secrets, or get tokens of any service account", async () => {
    const forbidden = { code: "K8S_FORBIDDEN" };
    for (const each of [client, nodeClient]) {
      await assert.rejects(each.list(paths.secrets()), forbidden);
      await assert.rejects(each.get(paths.secrets("default", "any")), forbidden);
      const token = paths.serviceAccounts("kube-system", "default", "token");
      await assert.rejects(each.create(token, { spec: {} }), forbidden);
    }
  });

  it("does not let kip become another account of its namespace, by a Secret with its token", async () => {
    const kipSystem = paths.secrets("kip-system");
    const metadata = {
      name: "token-of-another",
      annotations: { "kubernetes.io/service-account.name": "default" },
    };
    const secret = { metadata, type: "kubernetes.io/service-account-token" };
    await adminClient.create(kipSystem, secret);
    const path = paths.secrets("kip-system", metadata.name);
    for (const each of [client, nodeClient])
      await assert.rejects(each.get(path), { code: "K8S_FORBIDDEN" });
  });

  const boundPod = async (node: string): Promise<PodRef> => {
    const spec = { nodeName: node, containers: [{ name: "main", image: "example.test/web:1" }] };
    const path = paths.pods("default");
    const pod = { metadata: { name: `on-${node}` }, spec };
    return (await adminClient.create<Pod>(path, pod)).metadata;
  };
  const phase = { status: { phase: "Running", podIP: "192.0.2.1" } };

  it("lets kip change the pods of its node, as the node alone", async () => {
    const ref = await boundPod(nodeName);
    const pod = paths.pods(ref.namespace, ref.name);
    const status = paths.pods(ref.namespace, ref.name, "status");
    const forbidden = { code: "K8S_FORBIDDEN" };
    await assert.rejects(client.patch(status, phase, "strategic"), forbidden);
    await assert.rejects(client.delete(pod), forbidden);
    await assert.rejects(evictPod(client, ref), forbidden);
    await nodeClient.patch(status, phase, "strategic");
    await evictPod(nodeClient, ref, { reader: client });
    assert.ok((await client.get<Pod>(pod)).metadata.deletionTimestamp);
    await nodeClient.delete(pod, { graceSeconds: 0 });
    await evictPod(nodeClient, ref, { reader: client }); // it is gone
  });

  it("does not let kip change the pods of other nodes, or get certificates for any pod", async () => {
    const ref = await boundPod("elsewhere");
    const pod = paths.pods(ref.namespace, ref.name);
    const status = paths.pods(ref.namespace, ref.name, "status");
    const forbidden = { code: "K8S_FORBIDDEN" };
    for (const each of [client, nodeClient]) {
      await assert.rejects(each.patch(status, phase, "strategic"), forbidden);
      await assert.rejects(each.delete(pod, { graceSeconds: 0 }), forbidden);
      await assert.rejects(evictPod(each, ref), forbidden);
    }
    const requests = namespaced("/apis/certificates.k8s.io/v1beta1", "podcertificaterequests");
    await assert.rejects(client.create(requests("default"), {}), forbidden);
  });

  it("does not let kip make another node, or have a certificate signed for one", async () => {
    const node = { metadata: { name: "decoy" } };
    const request = await signingRequest("decoy");
    for (const each of [client, nodeClient]) {
      await assert.rejects(each.create(paths.nodes(), node), { code: "K8S_FORBIDDEN" });
      const asked = each.create(paths.certificateSigningRequests(), request);
      await assert.rejects(asked, { code: "K8S_FORBIDDEN" });
    }
    await nodeClient.create(paths.certificateSigningRequests(), await signingRequest(nodeName));
  });

  it("does not let kip create pods, or have a certificate that outlives its token", async () => {
    const request = await signingRequest(nodeName);
    const client = "kubernetes.io/kube-apiserver-client-kubelet";
    const usages = ["digital signature", "client auth"];
    const asClient = { ...request, spec: { ...request.spec, signerName: client, usages } };
    const { metadata } = await adminClient.get<KubeObject>(paths.nodes(nodeName));
    const { uid } = metadata;
    const owner = { apiVersion: "v1", kind: "Node", name: nodeName, uid, controller: true };
    const annotations = { "kubernetes.io/config.mirror": "any" };
    const mirror = {
      metadata: { name: "mirror", annotations, ownerReferences: [owner] },
      spec: { nodeName, containers: [{ name: "main", image: "example.test/web:1" }] },
    };
    const query = { dryRun: "All" };
    await denied("requests no certificate", () =>
      nodeClient.create(paths.certificateSigningRequests(), asClient, { query }),
    );
    // The signer that EKS has for servers other than its own nodes.
    const onEks = {
      ...request,
      spec: { ...request.spec, signerName: "beta.eks.amazonaws.com/app-serving" },
    };
    await nodeClient.create(paths.certificateSigningRequests(), onEks, { query });
    await denied("creates no pods", () =>
      nodeClient.create(paths.pods("default"), mirror, { query }),
    );
  });

  it("does not let kip create Secrets that others take for their own", async () => {
    const secret = (name: string, type: string, metadata = {}, more = {}) => ({
      metadata: { name, ...metadata },
      type,
      data: { "tls.crt": "", "tls.key": "", ...more },
    });
    const account = { annotations: { "kubernetes.io/service-account.name": "default" } };
    // Helm finds its records by these labels, whatever their name and type.
    const release = { labels: { owner: "helm", name: "kip", status: "deployed", version: "2" } };
    for (const each of [
      secret("sh.helm.release.v1.kip.v2", "helm.sh/release.v1"),
      secret("kip-credentials", "Opaque"),
      secret("other", "kubernetes.io/tls"),
      secret("kip-cell-ca", "kubernetes.io/service-account-token", account),
      secret("kip-cell-ca", "kubernetes.io/tls", release, { release: "" }),
    ])
      await denied("creates no Secret but kip-cell-ca", () =>
        client.create(paths.secrets("kip-system"), each, { query: { dryRun: "All" } }),
      );
  });

  it("does not let kip remove its node's taints, uncordon it, or name a webhook for Cells", async () => {
    const node = paths.nodes(nodeName);
    const taint = { key: "example.test/kept", effect: "NoSchedule" };
    const { spec } = await adminClient.get<Node & KubeObject>(node);
    const taints = [...(spec?.taints ?? []), taint];
    await adminClient.patch(node, { spec: { taints } }, "merge");
    const others = taints.map((each) => ({ ...each, value: "changed" }));
    await client.patch(node, { spec: { taints: others } }, "merge");
    for (const left of [null, others.slice(0, -1)])
      await denied("removes no taint", () =>
        client.patch(node, { spec: { taints: left } }, "merge"),
      );
    await adminClient.patch(node, { spec: { taints: spec?.taints ?? null } }, "merge");
    await adminClient.patch(node, { spec: { unschedulable: true } }, "merge");
    for (const unschedulable of [false, null])
      for (const each of [client, nodeClient])
        await denied("does not uncordon", () =>
          each.patch(node, { spec: { unschedulable } }, "merge"),
        );
    await adminClient.patch(node, { spec: { unschedulable: false } }, "merge");
    // The garbage collector would delete the node, and kip could create it again without taints.
    const gone = { apiVersion: "v1", kind: "Namespace", name: "gone", uid: randomUUID() };
    for (const each of [node, paths.nodes(nodeName, "status")])
      await denied("gives its node no owner", () =>
        client.patch(each, { metadata: { ownerReferences: [gone] } }, "merge", {
          query: { dryRun: "All" },
        }),
      );
    const webhook = { conversionReviewVersions: ["v1"], clientConfig: { url: "https://a.test/" } };
    const conversion = { strategy: "Webhook", webhook };
    await denied("has the API server call no webhook", () =>
      client.patch(
        paths.customResourceDefinitions("cells.kip.elotl.co"),
        { spec: { conversion } },
        "merge",
      ),
    );
  });

  /** Waits until the policy denies a request. It takes effect a moment after it was applied. */
  const denied = async (reason: string, request: () => Promise<unknown>): Promise<void> =>
    await eventually(async () => {
      try {
        await request();
        return false;
      } catch (error) {
        assert.match(String(error), new RegExp(`denied request: kip ${reason}`));
        return true;
      }
    });

  /** A request for the certificate of a node's kubelet API. */
  const signingRequest = async (
    node: string,
  ): Promise<{ readonly metadata: object; readonly spec: object }> => {
    const { request } = await createSigningRequest({
      commonName: `system:node:${node}`,
      organizations: ["system:nodes"],
      dnsNames: [node],
    });
    return {
      metadata: { generateName: "csr-" },
      spec: {
        request: Buffer.from(request).toString("base64"),
        signerName: "kubernetes.io/kubelet-serving",
        usages: ["digital signature", "server auth"],
      },
    };
  };

  it("does not let kip change other nodes, resource definitions and Leases", async () => {
    const admin = async (path: string, name: string, more: object = {}): Promise<void> =>
      void (await adminClient.create(path, { metadata: { name }, ...more }));
    await admin(paths.nodes(), "worker");
    await admin(paths.leases("kube-node-lease"), "worker");
    const labels = { metadata: { labels: { by: "kip" } } };
    const forbidden = { code: "K8S_FORBIDDEN" };
    for (const path of [
      paths.nodes("worker"),
      paths.nodes("worker", "status"),
      paths.customResourceDefinitions("others.example.test"),
    ])
      await assert.rejects(client.patch(path, labels, "merge"), forbidden, path);
    const lease = await client.get<Lease>(paths.leases("kube-node-lease", "worker"));
    await assert.rejects(
      client.replace(paths.leases("kube-node-lease", "worker"), lease),
      forbidden,
    );
    await assert.rejects(client.list(paths.leases("kube-system")), forbidden);
  });

  it("lets kip make the resource of Cells where it is missing", async () => {
    const resource = paths.customResourceDefinitions("cells.kip.elotl.co");
    await adminClient.delete(resource);
    // The API server removes it after the Cells, and earlier tests may have left some Cells.
    const isMissing = async (): Promise<boolean> => {
      try {
        return (await adminClient.get(resource)) === undefined;
      } catch (error) {
        return isCodedError(error) && error.code === "K8S_NOT_FOUND";
      }
    };
    await eventually(isMissing);
    await installCells(client);
    await eventually(hasNoCells);
  });

  /** For a moment, another client may see the storage become available again. */
  const hasNoCells = async (): Promise<boolean> => {
    try {
      return (await client.list(paths.cells())).items.length === 0;
    } catch (error) {
      if (isCodedError(error) && error.code === "K8S_TOO_MANY_REQUESTS") return false;
      throw error;
    }
  };

  it("lets kip wait for the end of a resource of Cells that is being deleted, and make it again", async () => {
    const resource = paths.customResourceDefinitions("cells.kip.elotl.co");
    const hold = async (finalizers: readonly string[]): Promise<unknown> =>
      await adminClient.patch(resource, { metadata: { finalizers } }, "merge");
    const { metadata } = await adminClient.get<KubeObject>(resource);
    await hold(["example.test/hold"]);
    await adminClient.delete(resource);
    let isInstalled = false;
    const installed = installCells(client).then(() => (isInstalled = true));
    const finalizers = async (): Promise<readonly string[]> =>
      (await adminClient.get<KubeObject>(resource)).metadata.finalizers ?? [];
    try {
      // The API server has finished with the Cells.
      await eventually(async () => (await finalizers()).join() === "example.test/hold");
      assert.equal(isInstalled, false);
    } finally {
      await hold([]);
    }
    await installed;
    const again = await adminClient.get<KubeObject>(resource);
    assert.notEqual(again.metadata.uid, metadata.uid);
    await eventually(hasNoCells);
  });

  it("is named where kip may not keep its certificate authority", async () => {
    await assert.rejects(start("elsewhere"), {
      code: "IDENTITY_SECRET_FORBIDDEN",
      remedy: /deploy\/kustomize\/base/,
    });
  });

  it("is not needed by an administrator: kip makes its namespace", async () => {
    const account = client;
    client = adminClient;
    try {
      await (await start("elsewhere"))[Symbol.asyncDispose]();
      assert.ok(await client.get(paths.secrets("elsewhere", "kip-cell-ca")));
    } finally {
      client = account;
    }
  });
});
