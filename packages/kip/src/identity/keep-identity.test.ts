import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { identityValidMs } from "./cell-identity.ts";
import { keepIdentity } from "./keep-identity.ts";

/** A cell whose certificate expires at `expiresMs`, and an issuer that the test can make fail. */
function start(expiresMs: number, failures: Error[] = []) {
  const clock = new ManualClock();
  const closed = Promise.withResolvers<void>();
  const renewals: number[] = [];
  let expires = clock.now() + expiresMs;
  const ended = keepIdentity({
    agent: { closed: closed.promise, putIdentity: async () => {} },
    identities: {
      issueForCell: async (cellName) => {
        const failure = failures.shift();
        if (failure) throw failure;
        renewals.push(clock.monotonic());
        const identity = { cellName, ca: "", certificate: "", key: "" };
        return { identity, expires: new Date(clock.now() + identityValidMs) };
      },
    },
    clock,
    logger: silentLogger,
    cellName: "cell-a",
    expires: () => expires,
    onRenewed: (date) => void (expires = date.getTime()),
  });
  return { clock, closed, renewals, ended };
}

describe("keepIdentity()", () => {
  it("renews at half of the certificate's time, again and again, until the connection closes", async () => {
    const { clock, closed, renewals, ended } = start(identityValidMs);
    await clock.advance(identityValidMs * 1.25);
    assert.deepEqual(renewals, [identityValidMs / 2, identityValidMs]);
    closed.resolve();
    await ended;
    assert.equal(clock.sleepers, 0);
  });

  it("repeats a renewal that failed, not before a server's Retry-After", async () => {
    const options = { retryable: true, retryAfterMs: 60_000 };
    const refusal = new K8sError("K8S_TOO_MANY_REQUESTS", "later", options);
    const { clock, closed, renewals, ended } = start(0, [refusal]);
    await clock.advance(59_999);
    assert.deepEqual(renewals, []);
    await clock.advance(1);
    assert.deepEqual(renewals, [60_000]);
    closed.resolve();
    await ended;
  });
});
