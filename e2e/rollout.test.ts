import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import type { RawEntry } from "@kip/testing";
import { nodePod, startProgram } from "./cell-node.ts";
import { cluster, eventually, stateDir, type Cluster } from "./cluster.ts";
import {
  busyboxEntries,
  programEntries,
  registryHost,
  startImageRegistry,
  type ImageRegistry,
} from "./image-registry.ts";
import { startLoad, type LoadResult } from "./programs/request-load.ts";

const configuration = `
daemon off;
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  keepalive_requests 100000;
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  server {
    listen 8080;
    location / { return 200 "VERSION\\n"; }
  }
}
`;

/**
 * Files like in the usual nginx image, including the signal after which it finishes open requests. SIGTERM would cut them off.
 */
function nginxEntries(): readonly RawEntry[] {
  const account = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
  return [
    ...busyboxEntries(),
    ...programEntries(["/usr/sbin/nginx"]),
    { name: "etc/passwd", content: account },
    { name: "etc/group", content: "root:x:0:\nnogroup:x:65534:\n" },
    { name: "etc/nginx.conf", content: configuration },
    { name: "var/log/nginx/", type: "5" },
  ];
}

const image = `${registryHost}/open/nginx:1`;

function deployment(version: string): object {
  const labels = { app: "web" };
  const start = `sed s/VERSION/${version}/ /etc/nginx.conf >/tmp/nginx.conf && exec nginx -c /tmp/nginx.conf`;
  const container = {
    name: "nginx",
    image,
    command: ["sh", "-c", start],
    ports: [{ name: "http", containerPort: 8080 }],
    readinessProbe: { httpGet: { path: "/", port: "http" }, periodSeconds: 1 },
    lifecycle: { preStop: { sleep: { seconds: 10 } } },
  };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      replicas: 3,
      selector: { matchLabels: labels },
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 3 } },
      template: {
        metadata: { labels },
        spec: { terminationGracePeriodSeconds: 30, containers: [container] },
      },
    },
  };
}

describe("a Deployment of nginx behind a Service", () => {
  let kube: Cluster;
  let registry: ImageRegistry;
  let url: string;
  before(async () => {
    kube = await cluster("rollout");
    registry = await startImageRegistry(stateDir, {
      "open/nginx": { entries: nginxEntries(), config: { StopSignal: "SIGQUIT" } },
    });
    await kube.apply(
      deployment("first"),
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "web" },
        spec: { selector: { app: "web" }, ports: [{ port: 80, targetPort: "http" }] },
      },
      nodePod("client", "request-load.ts", { script: "exec sleep 100000" }),
    );
    await kube.ok("rollout", "status", "deployment/web", "--timeout=240s");
    await kube.ok("wait", "--for=condition=Ready", "pod/client", "--timeout=240s");
    const path = "jsonpath={.spec.clusterIP}";
    url = `http://${await kube.ok("get", "service", "web", "-o", path)}/`;
    await eventually("an answer", async () => (await fetch(url)).ok, 30_000);
  });
  after(async () => {
    await kube.ok("delete", "deployment,service", "web", "--wait=false");
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
    await registry[Symbol.asyncDispose]();
  });

  /** Sends requests from the client's pod, as many as an emulated machine can send on a busy computer. */
  async function startPodLoad(): Promise<{ stop(): Promise<LoadResult> }> {
    const load = `LOAD_URL=${url} LOAD_PER_SECOND=3 LOAD_KEPT_PER_SECOND=1`;
    const start = `export ${load}; ${startProgram}`;
    const flags = ["--kubeconfig", kube.kubeconfig, "--namespace", "rollout"];
    const command = ["exec", "-i", "client", "--", "sh", "-c", start];
    const child = spawn(kube.kubectlPath, [...flags, ...command]);
    const said = text(child.stdout);
    const complained = text(child.stderr);
    const closed = once(child, "close");
    // On a busy computer, the program starts slowly. It should also get answers of the first version.
    await Promise.race([once(child.stderr, "data"), closed]);
    return {
      stop: async () => {
        child.stdin.end();
        await closed;
        assert.notEqual(await said, "", await complained);
        return JSON.parse(await said) as LoadResult; // the program's format
      },
    };
  }

  it("is rolled over at 50 requests a second without one that fails", async (t) => {
    const loads = [await startPodLoad(), startLoad(url, { perSecond: 50, keptPerSecond: 5 })];
    await kube.apply(deployment("second"));
    await kube.ok("rollout", "status", "deployment/web", "--timeout=300s");
    const left = async (): Promise<string> =>
      await kube.ok("get", "pods", "-l", "app=web", "-o", "name");
    await eventually(
      "the old pods to go",
      async () => (await left()).trim().split("\n").length === 3,
    );
    const [pod, host] = await Promise.all(loads.map(async (load) => await load.stop()));
    for (const [from, result] of Object.entries({ pod, host })) {
      assert.ok(result);
      t.diagnostic(`${from}: ${JSON.stringify({ ...result, failures: result.failures.length })}`);
      assert.deepEqual(result.failures, [], from);
      assert.deepEqual(Object.keys(result.answers).sort(), ["first", "second"], from);
    }
  });
});
