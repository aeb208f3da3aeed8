import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { CertificateAuthority } from "@kip/pki";
import { nodePod } from "./cell-node.ts";
import { cluster, eventually, type Cluster, type Result } from "./cluster.ts";

const namespace = "extensions";
const group = "things.kip.test";

function service(name: string, ports: readonly object[]): object {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { selector: { app: "extension" }, ports },
  };
}

describe("servers in pods that extend the API", () => {
  let kube: Cluster;
  let caBundle: string;
  before(async () => {
    kube = await cluster(namespace);
    const validMs = 86_400_000;
    const authority = await CertificateAuthority.create({ commonName: "extension", validMs });
    caBundle = Buffer.from(authority.certificate).toString("base64");
    const server = await authority.issue({
      commonName: "extension",
      dnsNames: [`extension.${namespace}.svc`],
      usages: ["server"],
      validMs,
    });
    const frontProxy = "jsonpath={.data.requestheader-client-ca-file}";
    const configMap = ["extension-apiserver-authentication", "--namespace=kube-system"];
    await kube.apply(
      nodePod("server", "extension-server.ts", {
        labels: { app: "extension" },
        env: {
          SERVER_CERTIFICATE: server.certificate,
          SERVER_KEY: server.key,
          FRONT_PROXY_CA: await kube.ok("get", "configmap", ...configMap, "-o", frontProxy),
        },
        container: { readinessProbe: { tcpSocket: { port: 8443 }, periodSeconds: 1 } },
      }),
      service("extension", [
        { name: "https", port: 443, targetPort: 8443 },
        { name: "http", port: 80, targetPort: 8080 },
      ]),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/server", "--timeout=240s");
  });
  after(async () => {
    for (const kind of ["validating", "mutating"])
      await kube.kubectl("delete", `${kind}webhookconfiguration`, "kip-e2e", "--ignore-not-found");
    await kube.kubectl("delete", "crd", "gadgets.kip.test", "--ignore-not-found");
    await kube.kubectl("delete", "apiservice", `v1.${group}`, "--ignore-not-found");
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
  });

  const clientConfig = (path: string): object => ({
    caBundle,
    service: { namespace, name: "extension", path },
  });

  /** A webhook for ConfigMaps of this namespace. */
  function webhook(kind: "Validating" | "Mutating", path: string): object {
    return {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: `${kind}WebhookConfiguration`,
      metadata: { name: "kip-e2e" },
      webhooks: [
        {
          name: "hook.kip.test",
          clientConfig: clientConfig(path),
          rules: [
            {
              apiGroups: [""],
              apiVersions: ["v1"],
              operations: ["CREATE"],
              resources: ["configmaps"],
            },
          ],
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
          admissionReviewVersions: ["v1"],
          sideEffects: "None",
          failurePolicy: "Fail",
          timeoutSeconds: 30,
        },
      ],
    };
  }

  it("refuse objects as a validating webhook, and change them as a mutating one", async () => {
    await kube.apply(webhook("Validating", "/validate"), webhook("Mutating", "/mutate"));
    const create = async (name: string): Promise<Result> =>
      await kube.kubectl("create", "configmap", name);
    await eventually("the webhook", async () => {
      const { stderr } = await create("bad-one");
      await kube.kubectl("delete", "configmap", "bad-one", "--ignore-not-found");
      return stderr.includes("names that begin with bad are not allowed");
    });
    await eventually("the change", async () => {
      await kube.kubectl("delete", "configmap", "good", "--ignore-not-found");
      await kube.ok("create", "configmap", "good");
      return (await kube.ok("get", "configmap", "good", "-o", "jsonpath={.data.by}")) === "a pod";
    });
  });

  it("convert the versions of a custom resource", async () => {
    const version = (name: string, field: string, storage: boolean): object => {
      const spec = { type: "object", properties: { [field]: { type: "integer" } } };
      const schema = { openAPIV3Schema: { type: "object", properties: { spec } } };
      return { name, served: true, storage, schema };
    };
    await kube.apply({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: "gadgets.kip.test" },
      spec: {
        group: "kip.test",
        scope: "Namespaced",
        names: { plural: "gadgets", singular: "gadget", kind: "Gadget" },
        versions: [version("v1", "size", true), version("v2", "sizeCm", false)],
        conversion: {
          strategy: "Webhook",
          webhook: {
            clientConfig: clientConfig("/convert"),
            conversionReviewVersions: ["v1"],
          },
        },
      },
    });
    await kube.ok("wait", "--for=condition=Established", "crd/gadgets.kip.test");
    await eventually(
      "the resource",
      async () => (await kube.kubectl("get", "gadgets")).status === 0,
    );
    const metadata = { name: "one" };
    await kube.apply({ apiVersion: "kip.test/v2", kind: "Gadget", metadata, spec: { sizeCm: 7 } });
    const show = async (what: string): Promise<string> =>
      await kube.ok("get", what, "one", "-o", "jsonpath={.apiVersion} {.spec}");
    assert.equal(await show("gadgets.v1.kip.test"), 'kip.test/v1 {"size":7}');
    assert.equal(await show("gadgets.v2.kip.test"), 'kip.test/v2 {"sizeCm":7}');
  });

  it("serve an API of their own, and know who asks", async () => {
    await kube.apply({
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: `v1.${group}` },
      spec: {
        group,
        version: "v1",
        caBundle,
        service: { namespace, name: "extension" },
        groupPriorityMinimum: 1000,
        versionPriority: 15,
      },
    });
    await kube.ok("wait", "--for=condition=Available", `apiservice/v1.${group}`, "--timeout=60s");
    const asked = ["get", `things.${group}`, "-o", "jsonpath={.items[0].asked}"];
    await eventually("the API", async () => (await kube.kubectl(...asked)).status === 0);
    const user = await kube.ok("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}");
    assert.equal(await kube.ok(...asked), user);
    assert.equal(await kube.ok(...asked, "--as=ann", "--as-group=system:masters"), "ann");
  });

  it("are reached through the API server's proxy, by Service and by pod", async () => {
    const get = async (what: string): Promise<string> =>
      await kube.ok("get", "--raw", `/api/v1/namespaces/${namespace}/${what}/proxy/a/b?c=d`);
    for (const name of ["services/extension:http", "services/extension:80", "pods/server:8080"])
      assert.equal(await get(name), "GET http /a/b?c=d\n", name);
    // The proxy does not verify the certificate, as in any cluster.
    for (const name of ["services/https:extension:https", "pods/https:server:8443"])
      assert.equal(await get(name), "GET https /a/b?c=d\n", name);
  });

  it("are reached by a port that kubectl forwards to their Service", async () => {
    const flags = ["--kubeconfig", kube.kubeconfig, "--namespace", namespace];
    const child = spawn(kube.kubectlPath, [...flags, "port-forward", "service/extension", ":http"]);
    try {
      const ports = createInterface({ input: child.stdout }).on("close", () => child.kill());
      const [line] = (await ports[Symbol.asyncIterator]().next()).value?.match(/127\S+:\d+/) ?? [];
      for (const path of ["/first", "/second"]) {
        const answer = await fetch(`http://${line}${path}`, {
          signal: AbortSignal.timeout(20_000),
        });
        assert.equal(await answer.text(), `GET http ${path}\n`);
      }
    } finally {
      child.kill();
    }
  });
});
