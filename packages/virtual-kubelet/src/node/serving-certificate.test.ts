import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import type { CertificateSigningRequest } from "@kip/k8s-types";
import { K8sError } from "@kip/k8s-client";
import { eventually, ManualClock } from "@kip/testing";
import { keepServingCertificate } from "./serving-certificate.ts";

describe("keepServingCertificate()", () => {
  it("repeats a refused request no earlier than the API server asks", async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    let requests = 0;
    const create = async (): Promise<never> => {
      requests++;
      throw new K8sError("K8S_TOO_MANY_REQUESTS", "later", {
        retryable: true,
        retryAfterMs: 120_000,
      });
    };
    const keeping = keepServingCertificate({
      client: { create } as unknown as ApiClient, // all it uses here
      nodeName: "n",
      ipAddresses: [],
      onCertificate: () => {},
      clock,
      logger: silentLogger,
      signal: stop.signal,
    });
    // The request's key is made outside the event loop.
    const waits = (): Promise<void> => eventually(() => clock.sleepers > 0);
    await waits();
    await clock.advance(119_000);
    assert.equal(requests, 1);
    await clock.advance(2000);
    await waits();
    assert.equal(requests, 2);
    stop.abort();
    await keeping;
  });

  it("asks the signer that is named, else that of kubelets", async () => {
    for (const [signerName, expected] of [
      [undefined, "kubernetes.io/kubelet-serving"],
      ["signer.example/serving", "signer.example/serving"],
    ] as const) {
      const stop = new AbortController();
      let asked: unknown;
      const create = async (_path: string, { spec }: CertificateSigningRequest): Promise<never> => {
        asked = spec.signerName;
        stop.abort();
        return await Promise.reject(new Error("that is all"));
      };
      await keepServingCertificate({
        client: { create } as unknown as ApiClient, // all it uses here
        nodeName: "n",
        ipAddresses: [],
        signerName,
        onCertificate: () => {},
        clock: new ManualClock(),
        logger: silentLogger,
        signal: stop.signal,
      });
      assert.equal(asked, expected);
    }
  });
});
