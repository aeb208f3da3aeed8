// kip's kubelet API gets a certificate from the cluster, with the permissions of kip's own account or of its node.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import tls from "node:tls";
import { parseOptions, silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient, type KubeConfig } from "@kip/k8s-client";
import { eventually } from "@kip/testing";
import { createNodeUserClient } from "@kip/virtual-kubelet";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import { serveNode, type ServedNode } from "../src/provider/node.ts";
import { providerOptions } from "../src/provider/provider-options.ts";

const nodeIp = "127.0.0.1";

describe("--rotate-server-certificates", { timeout: 170_000 }, () => {
  let plane: SharedControlPlane;
  let cluster: KubeConfig;
  let client: ApiClient;

  before(
    async () => {
      plane = await sharedControlPlane();
      cluster = await loadKubeConfig({ path: plane.kipKubeconfigPath });
      const logger = silentLogger;
      client = createApiClient(cluster, { userAgent: "kip/test", logger, clock: systemClock });
    },
    { timeout: 900_000 },
  );

  after(async () => {
    client?.close();
    await plane?.[Symbol.asyncDispose]();
  });

  async function serve(
    nodeName: string,
    flags: readonly string[] = [],
    nodeClient?: ApiClient,
  ): Promise<ServedNode> {
    const port = await freePort();
    const args = [`--nodename=${nodeName}`, `--kubelet-port=${port}`, ...flags];
    return await serveNode({
      provider: new MemoryProvider(),
      client,
      nodeClient,
      cluster,
      nodeName,
      nodeIp,
      tracer: noTracer,
      options: parseOptions(providerOptions, args, {}),
      logger: silentLogger,
      signal: new AbortController().signal,
    });
  }

  /** The certificate requests for a node. */
  async function requestsOf(nodeName: string): Promise<readonly Request[]> {
    const { items } = JSON.parse(await plane.kubectl(["get", "csr", "-o", "json"])) as {
      readonly items: readonly Request[];
    };
    const isOf = (request: string): boolean => {
      const pem = Buffer.from(request, "base64").toString();
      return Buffer.from(pem.replace(/-----.*-----|\s/g, ""), "base64").includes(nodeName);
    };
    return items.filter(({ spec }) => isOf(spec.request));
  }

  const rotates = ["--rotate-server-certificates"];

  it("has the cluster sign the certificate; a self-signed one serves until it is approved", async () => {
    await using node = await serve("rotates", rotates);
    const port = node.kubeletPort ?? 0;
    await eventually(async () => (await requestsOf("rotates")).length > 0);
    const [request] = await requestsOf("rotates");
    assert.equal((await certificateOf(port)).issuer, "CN=rotates");
    await plane.kubectl(["certificate", "approve", request?.metadata.name ?? ""]);
    const ca = new X509Certificate(plane.ca);
    await eventually(async () => (await certificateOf(port)).checkIssued(ca));
    const issued = await certificateOf(port);
    assert.ok(issued.verify(ca.publicKey));
    assert.match(issued.subject, /O=system:nodes\nCN=system:node:rotates/);
    assert.ok(
      issued.checkIP("192.0.2.1") !== undefined && issued.checkHost("rotates") !== undefined,
    );
  });

  it("asks as the node with --act-as-node, as approvers expect", async () => {
    const admin = await loadKubeConfig({ path: plane.kubeconfigPath });
    const common = { userAgent: "kip/test", logger: silentLogger, clock: systemClock };
    const nodeClient = createNodeUserClient(admin, { ...common, nodeName: "acts" });
    await using node = await serve("acts", rotates, nodeClient);
    await eventually(async () => (await requestsOf("acts")).length > 0);
    const [request] = await requestsOf("acts");
    assert.equal(request?.spec.username, "system:node:acts");
    await plane.kubectl(["certificate", "approve", request.metadata.name]);
    const ca = new X509Certificate(plane.ca);
    await eventually(async () => (await certificateOf(node.kubeletPort ?? 0)).checkIssued(ca));
    nodeClient.close();
  });

  it("is off by default: a cluster in which nothing approves has no requests", async () => {
    await using node = await serve("stays");
    assert.equal((await certificateOf(node.kubeletPort ?? 0)).issuer, "CN=stays");
    assert.deepEqual(await requestsOf("stays"), []);
  });
});

/** A CertificateSigningRequest. */
interface Request {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly request: string; readonly username: string };
}

async function certificateOf(port: number): Promise<X509Certificate> {
  const socket = tls.connect({ port, host: nodeIp, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const certificate = socket.getPeerX509Certificate();
  socket.destroy();
  assert.ok(certificate);
  return certificate;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, nodeIp);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // the server listens on TCP
  server.close();
  await once(server, "close");
  return port;
}
