// Who is let in by the kubelet API, with the tokens and the RBAC of a real kube-apiserver.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";
import { CertificateAuthority } from "@kip/pki";
import { delegatedAccess } from "../src/index.ts";
import type { KubeletApiOptions } from "../src/kubelet-api/index.ts";
import { KubeletApiFixture, type ClientTls } from "./kubelet-api-fixture.ts";
import { WebSocketTestClient } from "./websocket-test-client.ts";

const execPath = "/exec/ns/p/c?command=true&output=1";

describe("kubelet API: access by TokenReview and SubjectAccessReview", { timeout: 120_000 }, () => {
  let controlPlane: SharedControlPlane;
  let client: ApiClient;
  let api: KubeletApiFixture;
  let namespace: string;
  const bindings: string[] = [];

  before(async () => {
    controlPlane = await sharedControlPlane();
    namespace = await controlPlane.createNamespace("access");
    const config = await loadKubeConfig({ path: controlPlane.kipKubeconfigPath });
    client = createApiClient(config, {
      userAgent: "kip-test",
      logger: silentLogger,
      clock: systemClock,
    });
    api = await KubeletApiFixture.start(access());
  });

  after(async () => {
    await api[Symbol.asyncDispose]();
    for (const name of bindings) {
      await controlPlane.kubectl(["delete", "clusterrolebinding", name]);
      await controlPlane.kubectl(["delete", "clusterrole", name]);
    }
    await controlPlane.kubectl(["delete", "namespace", namespace, "--wait=false"]);
    client.close();
    await controlPlane[Symbol.asyncDispose]();
  });

  it("answers 401 without a token, and to an invalid one or one for another audience", async () => {
    assert.equal(await status("/pods", undefined), 401);
    assert.equal(await status("/healthz", undefined), 401);
    assert.equal(await status("/nowhere", undefined), 401);
    assert.equal(await status("/pods", "nonsense"), 401);
    await serviceAccount("elsewhere", []);
    const token = await tokenOf("elsewhere", ["--audience=somebody-else"]);
    assert.equal(await status("/pods", token), 401);
  });

  it("answers 401 to a certificate of another authority, whatever it says", async () => {
    const other = await CertificateAuthority.create({ commonName: "other", validMs: 3_600_000 });
    const pair = await other.issue({
      commonName: "kube-apiserver-kubelet-client",
      usages: ["client"],
      validMs: 3_600_000,
    });
    const tls: ClientTls = { ...api.anonymous, cert: pair.certificate, key: pair.key };
    assert.equal((await api.ask("/pods", {}, tls)).status, 401);
    await serviceAccount("with-token", [["get", "nodes/pods"]]);
    const headers = { Authorization: `Bearer ${await tokenOf("with-token")}` };
    assert.equal((await api.ask("/pods", { headers }, tls)).status, 200);
  });

  it("lets the API server's certificate do everything", async () => {
    assert.equal((await api.ask("/pods")).status, 200);
    assert.equal((await api.ask("/healthz")).status, 200);
    assert.equal((await api.ask("/containerLogs/ns/p/c")).status, 200);
    const exec = await connect(execPath, api.client);
    await exec.closed;
    assert.match(exec.received(3).toString(), /"Success"/);
  });

  it("gives metrics-server its metrics and nothing else", async () => {
    await serviceAccount("metrics", [["get", "nodes/metrics"]]);
    const token = await tokenOf("metrics");
    assert.notEqual(await status("/metrics/resource", token), 403);
    for (const path of ["/pods", "/healthz", "/configz", "/stats/summary", "/nowhere"])
      assert.equal(await status(path, token), 403, path);
    const refused = await api.ask(
      "/pods",
      { headers: { Authorization: `Bearer ${token}` } },
      api.anonymous,
    );
    const who = `user=system:serviceaccount:${namespace}:metrics`;
    const what = "verb=get, resource=nodes, subresource(s)=[pods proxy]";
    assert.equal(refused.text, `Forbidden (${who}, ${what})`);
  });

  it("knows the fine-grained names, and proxy as the wide one", async () => {
    await serviceAccount("narrow", [["get", "nodes/pods,nodes/healthz,nodes/configz"]]);
    const narrow = await tokenOf("narrow");
    assert.equal(await status("/pods", narrow), 200);
    assert.equal(await status("/runningpods/", narrow), 200);
    assert.equal(await status("/healthz", narrow), 200);
    assert.equal(await status("/containerLogs/ns/p/c", narrow), 403);
    assert.equal(await status("/metrics/resource", narrow), 403);
    await serviceAccount("wide", [["get", "nodes/proxy"]]);
    const wide = await tokenOf("wide");
    assert.equal(await status("/pods", wide), 200);
    assert.equal(await status("/containerLogs/ns/p/c", wide), 200);
    assert.equal(await status("/metrics/resource", wide), 403);
    assert.equal(await status("/logs/", wide), 403);
  });

  it("nodes/proxy: does not let somebody who may look run commands by a WebSocket's GET", async () => {
    await serviceAccount("looker", [["get", "nodes/proxy"]]);
    const looker = await tokenOf("looker");
    for (const path of [execPath, execPath.replace("exec", "%65xec"), "/attach/ns/p/c?output=1"])
      await assert.rejects(
        connect(path, api.anonymous, looker),
        /^Error: 403 Forbidden .*verb=create/,
      );
    await assert.rejects(
      connect("/portForward/ns/p?port=80", api.anonymous, looker),
      /^Error: 403/,
    );
    assert.equal(await status(execPath, looker), 403);
    await serviceAccount("doer", [["create", "nodes/proxy"]]);
    const doer = await tokenOf("doer");
    const exec = await connect(execPath, api.anonymous, doer);
    await exec.closed;
    assert.match(exec.received(3).toString(), /"Success"/);
    assert.equal(await status("/pods", doer), 403);
  });

  it("takes only tokens meant for the node, if configured so", async () => {
    await using strict = await KubeletApiFixture.start(access({ tokens: { audiences: ["node"] } }));
    await serviceAccount("audience", [["get", "nodes/pods"]]);
    const plain = await tokenOf("audience");
    const meant = await tokenOf("audience", ["--audience=node"]);
    const ask = async (token: string): Promise<number> => {
      const headers = { Authorization: `Bearer ${token}` };
      return (await strict.ask("/pods", { headers }, strict.anonymous)).status;
    };
    assert.equal(await ask(plain), 401);
    assert.equal(await ask(meant), 200);
  });

  it("anonymous access: refuses anonymous clients unless configured otherwise; then RBAC decides what they may do", async () => {
    await using open = await KubeletApiFixture.start(access({ anonymous: true }));
    assert.equal((await open.ask("/pods", {}, open.anonymous)).status, 403);
    await bind("anonymous", [["get", "nodes/healthz"]], "--user=system:anonymous");
    await using later = await KubeletApiFixture.start(access({ anonymous: true }));
    assert.equal((await later.ask("/healthz", {}, later.anonymous)).status, 200);
    assert.equal((await later.ask("/pods", {}, later.anonymous)).status, 403);
  });

  function access(
    options: Partial<Parameters<typeof delegatedAccess>[0]> = {},
  ): Pick<KubeletApiOptions, "authenticate" | "authorize"> {
    return delegatedAccess({ client, nodeName: "node", clock: systemClock, ...options });
  }

  async function status(path: string, token: string | undefined): Promise<number> {
    const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
    return (await api.ask(path, { headers }, api.anonymous)).status;
  }

  async function connect(
    path: string,
    tls: ClientTls,
    token?: string,
  ): Promise<WebSocketTestClient> {
    const carrier = `base64url.bearer.authorization.k8s.io.${Buffer.from(token ?? "").toString("base64url")}`;
    const protocols = ["v5.channel.k8s.io", ...(token === undefined ? [] : [carrier])];
    return await WebSocketTestClient.connect(api.port, path, protocols, tls);
  }

  /** A ServiceAccount that may do what the rules say: verbs, resources. */
  async function serviceAccount(
    name: string,
    rules: readonly (readonly [string, string])[],
  ): Promise<void> {
    await controlPlane.kubectl(["-n", namespace, "create", "serviceaccount", name]);
    if (rules.length > 0) await bind(name, rules, `--serviceaccount=${namespace}:${name}`);
  }

  async function bind(
    name: string,
    rules: readonly (readonly [string, string])[],
    subject: string,
  ): Promise<void> {
    const full = `${namespace}-${name}`;
    const words = rules.flatMap(([verb, resource]) => [`--verb=${verb}`, `--resource=${resource}`]);
    await controlPlane.kubectl(["create", "clusterrole", full, ...words]);
    await controlPlane.kubectl([
      "create",
      "clusterrolebinding",
      full,
      `--clusterrole=${full}`,
      subject,
    ]);
    bindings.push(full);
    const [verb = "", resource = ""] = rules[0] ?? [];
    const subresource = resource.split(",")[0]?.split("/")[1] ?? "";
    const who = subject
      .replace("--user=", "")
      .replace("--serviceaccount=", "system:serviceaccount:");
    const attributes = { verb, resource: "nodes", subresource, name: "node" };
    // The authoriser learns of new bindings by its own watch, which is not visible from outside.
    for (let attempt = 0; attempt < 200; attempt++) {
      const review = await client.create<{ status: { allowed: boolean } }>(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
          apiVersion: "authorization.k8s.io/v1",
          kind: "SubjectAccessReview",
          spec: { user: who, resourceAttributes: attributes },
        },
      );
      if (review.status.allowed) return;
    }
    assert.fail(`${full} has not come into effect`);
  }

  async function tokenOf(name: string, args: readonly string[] = []): Promise<string> {
    const text = await controlPlane.kubectl(["-n", namespace, "create", "token", name, ...args]);
    return text.trim();
  }
});
