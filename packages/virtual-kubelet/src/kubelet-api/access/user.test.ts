import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { certificateUser } from "./user.ts";

const clientAuth = "1.3.6.1.5.5.7.3.2";

/** A request over TLS whose client certificate was verified at the handshake. */
function requestOf(certificate: object): IncomingMessage {
  const socket = { authorized: true, getPeerCertificate: () => certificate };
  return { socket } as unknown as IncomingMessage; // the fields that are read
}

describe("certificateUser()", () => {
  const end = Date.UTC(2030, 0, 2);
  const certificate = {
    subject: { CN: "api", O: ["a", "b"] },
    ext_key_usage: [clientAuth],
    valid_to: "Jan  2 00:00:00 2030 GMT",
  };
  const at = (now: number) => new ManualClock(now);

  it("names the user and the groups of a verified certificate", async () => {
    const user = await certificateUser(requestOf(certificate), at(end - 1));
    assert.deepEqual(user, { name: "api", groups: ["a", "b"] });
  });

  it("does not know a certificate that has ended since the handshake", async () => {
    assert.equal(await certificateUser(requestOf(certificate), at(end + 1000)), undefined);
  });
});
