import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { describe, it } from "node:test";
import tls from "node:tls";
import { silentLogger, systemClock } from "@kip/base";
import { createInformer, paths, type KubeObject } from "@kip/k8s-client";
import type { CertificateSigningRequest } from "@kip/k8s-types";
import { createSelfSigned } from "@kip/pki";
import { eventually } from "@kip/testing";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import { keepServingCertificate } from "../src/node/serving-certificate.ts";
import { nodeWith, uniqueNodeName, useCluster } from "./support/cluster.ts";

const cluster = useCluster();

/** Approves or denies the requests that name a node, like an administrator. */
function decide(nodeName: string, type: "Approved" | "Denied", signal: AbortSignal): string[] {
  const decided: string[] = [];
  createInformer<CertificateSigningRequest & KubeObject>({
    client: cluster.admin,
    path: paths.certificateSigningRequests(),
    onEvent: ({ type: change, object }) => {
      const name = object.metadata?.name ?? "";
      const pem = Buffer.from(object.spec.request ?? "", "base64");
      if (change !== "added" || object.status?.conditions !== undefined) return;
      // The subject is in the request as text; the tests' node names are unique.
      if (!Buffer.from(pem.toString().replace(/-----.*-----|\s/g, ""), "base64").includes(nodeName))
        return;
      decided.push(name);
      const conditions = [{ type, status: "True", reason: "Test", message: "by the test" }];
      const path = paths.certificateSigningRequests(name, "approval");
      void cluster.admin.replace(path, {
        ...object,
        kind: "CertificateSigningRequest",
        apiVersion: "certificates.k8s.io/v1",
        status: { conditions },
      });
    },
    clock: systemClock,
    logger: silentLogger,
    signal,
  });
  return decided;
}

async function servedCertificate(port: number): Promise<X509Certificate | undefined> {
  const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const certificate = socket.getPeerX509Certificate();
  socket.destroy();
  return certificate;
}

describe("the kubelet API's certificate", () => {
  it("is requested from the cluster, and used without a restart", async () => {
    const nodeName = uniqueNodeName();
    const own = await createSelfSigned({
      commonName: nodeName,
      usages: ["server"],
      validMs: 3_600_000,
    });
    await using running = await nodeWith(cluster, new MemoryProvider(), {
      nodeName,
      requestCertificate: true,
      kubelet: { ...own, clientCa: cluster.plane.ca, host: "127.0.0.1", port: 0 },
    });
    const port = running.node.kubeletPort ?? 0;
    assert.equal((await servedCertificate(port))?.issuer, `CN=${nodeName}`);
    const stop = new AbortController();
    decide(nodeName, "Approved", stop.signal);
    let served = await servedCertificate(port);
    for (const end = Date.now() + 30_000; !served?.subject.includes("O=system:nodes");) {
      // A client gets no event for a server's new certificate.
      assert.ok(Date.now() < end, "no other certificate within 30 s");
      await new Promise((resolve) => setTimeout(resolve, 50));
      served = await servedCertificate(port);
    }
    assert.ok(served.checkIssued(new X509Certificate(cluster.plane.ca)));
    assert.ok(
      served.checkIP("192.0.2.1") !== undefined && served.checkHost(nodeName) !== undefined,
    );
    stop.abort();
  });

  it("is renewed in time, and requested again when it is denied", async () => {
    const nodeName = uniqueNodeName();
    const stop = new AbortController();
    const denier = new AbortController();
    const sleeps: number[] = [];
    const issued: string[] = [];
    const denied = decide(nodeName, "Denied", denier.signal);
    const keeping = keepServingCertificate({
      client: cluster.client,
      nodeName,
      ipAddresses: ["192.0.2.1"],
      expirationSeconds: 600,
      onCertificate: ({ certificate }) => issued.push(certificate),
      // Long waits end at once here. The test checks their length.
      clock: {
        ...systemClock,
        sleep: async (ms, signal) => {
          if (ms > 800_000) return systemClock.sleep(ms, signal); // the time limit for approval
          sleeps.push(ms);
          if (denied.length > 0 && !denier.signal.aborted) {
            denier.abort();
            decide(nodeName, "Approved", stop.signal);
          }
          await systemClock.sleep(Math.min(ms, 10), signal);
        },
      },
      logger: silentLogger,
      signal: stop.signal,
    });
    await eventually(() => issued.length >= 2);
    stop.abort();
    await keeping;
    assert.equal(denied.length, 1);
    assert.notEqual(issued[0], issued[1]);
    // The watch on the request has its time limit (3 minutes) on the same clock.
    const renewals = sleeps.filter((ms) => ms > 200_000);
    assert.ok(
      renewals.every((ms) => ms > 0.6 * 600_000 && ms < 0.95 * 600_000),
      String(renewals),
    );
  });
});
