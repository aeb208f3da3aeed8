import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { describe, it } from "node:test";
import { connect, createServer, type TLSSocket } from "node:tls";
import { systemClock } from "@kip/base";
import { PkiError } from "./errors.ts";
import { CertificateAuthority } from "./certificate-authority.ts";
import { remainingMs } from "./expiry.ts";
import type { KeyPair } from "./key-pair.ts";
import { createSelfSigned } from "./self-signed.ts";
import { createTokenKey } from "./token-key.ts";

const hourMs = 3_600_000;
const now = Date.UTC(2030, 0, 2);
const clock = { ...systemClock, now: () => now };

describe("CertificateAuthority.issue()", () => {
  it("writes names, organizations, usages and validity that Node reads back", async () => {
    const authority = await CertificateAuthority.create({
      commonName: "kip cells",
      validMs: 10 * hourMs,
      clock,
    });
    const issued = await authority.issue({
      commonName: "system:node:kip",
      organizations: ["system:nodes", "other"],
      dnsNames: ["kip", "*.cells.example"],
      ipAddresses: ["198.18.0.1", "fd00::1"],
      usages: ["client", "server"],
      validMs: hourMs,
    });

    const root = new X509Certificate(authority.certificate);
    const leaf = new X509Certificate(issued.certificate);
    assert.equal(leaf.subject, "O=system:nodes\nO=other\nCN=system:node:kip");
    assert.equal(leaf.issuer, "CN=kip cells");
    assert.ok(leaf.checkIssued(root) && leaf.verify(root.publicKey));
    assert.ok(root.ca && !leaf.ca);
    assert.equal(leaf.checkIP("198.18.0.1"), "198.18.0.1");
    assert.equal(leaf.checkIP("fd00::1"), "fd00::1");
    assert.equal(leaf.checkHost("a.cells.example"), "*.cells.example");
    assert.deepEqual([...(leaf.keyUsage ?? [])].sort(), ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
    assert.equal(leaf.validToDate.getTime(), now + hourMs);
    assert.equal(leaf.validFromDate.getTime(), now - 300_000);
    assert.equal(remainingMs(issued.certificate, clock), hourMs);
  });

  it("never outlives its authority", async () => {
    const authority = await CertificateAuthority.create({ commonName: "a", validMs: 1000, clock });
    const issued = await authority.issue({ commonName: "b", usages: ["client"], validMs: hourMs });
    assert.equal(remainingMs(issued.certificate, clock), 1000);
  });

  it("rejects what no certificate can say", async () => {
    const authority = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const good = { commonName: "b", usages: ["client"], validMs: hourMs } as const;
    for (const bad of [
      { ...good, usages: [] },
      { ...good, validMs: 0 },
      { ...good, commonName: "" },
      { ...good, commonName: "x".repeat(266) },
    ])
      await assert.rejects(authority.issue(bad), RangeError);
  });
});

describe("CertificateAuthority.load()", () => {
  it("takes a stored authority back", async () => {
    const first = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const again = await CertificateAuthority.load(first.pair);
    const issued = await again.issue({ commonName: "b", usages: ["server"], validMs: 1000 });
    const leaf = new X509Certificate(issued.certificate);
    assert.ok(leaf.verify(new X509Certificate(first.certificate).publicKey));
  });

  it("rejects a key of another authority, an end certificate, another curve and nonsense", async () => {
    const a = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const b = await CertificateAuthority.create({ commonName: "b", validMs: hourMs });
    const leaf = await a.issue({ commonName: "c", usages: ["server"], validMs: 1000 });
    const pairs: readonly KeyPair[] = [
      { certificate: a.certificate, key: b.pair.key },
      leaf,
      { certificate: "nonsense", key: a.pair.key },
      { certificate: a.certificate, key: rsaKey() },
    ];
    for (const pair of pairs)
      await assert.rejects(CertificateAuthority.load(pair), (error) =>
        PkiError.is(error, "PKI_AUTHORITY_INVALID"),
      );
  });
});

describe("CertificateAuthority.issue(), in TLS", () => {
  it("authenticates both sides of a connection by name", async () => {
    const authority = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const ipAddresses = ["127.0.0.1"];
    const server = await authority.issue({
      commonName: "server",
      ipAddresses,
      usages: ["server"],
      validMs: hourMs,
    });
    const client = await authority.issue({
      commonName: "client",
      usages: ["client"],
      validMs: hourMs,
    });
    assert.equal(await meet(authority.certificate, server, client), "client");
  });

  it("carries the longest name of a node", async () => {
    const authority = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const commonName = `system:node:${"n".repeat(253)}`;
    const options = { commonName, ipAddresses: ["127.0.0.1"], validMs: hourMs };
    const server = await authority.issue({ ...options, usages: ["server"] });
    const client = await authority.issue({ ...options, usages: ["client"] });
    assert.equal(await meet(authority.certificate, server, client), commonName);
  });

  it("are refused from another authority, in both directions", async () => {
    const ours = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const theirs = await CertificateAuthority.create({ commonName: "a", validMs: hourMs });
    const options = {
      commonName: "x",
      ipAddresses: ["127.0.0.1"],
      usages: ["client", "server"] as const,
      validMs: hourMs,
    };
    const good = await ours.issue(options);
    const bad = await theirs.issue(options);
    await assert.rejects(meet(ours.certificate, good, bad));
    await assert.rejects(meet(ours.certificate, bad, good));
    await assert.rejects(meet(ours.certificate, good, await createSelfSigned(options)));
  });
});

describe("createSelfSigned()", () => {
  it("makes a certificate that vouches for itself only", async () => {
    const pair = await createSelfSigned({ commonName: "kip", usages: ["server"], validMs: 1000 });
    const certificate = new X509Certificate(pair.certificate);
    assert.ok(certificate.verify(certificate.publicKey) && !certificate.ca);
  });
});

describe("createTokenKey()", () => {
  it("makes an RSA key as PEM", async () => {
    const key = await createTokenKey();
    assert.match(key.privateKey, /^-----BEGIN PRIVATE KEY-----/);
    assert.match(key.publicKey, /^-----BEGIN PUBLIC KEY-----/);
  });
});

function rsaKey(): string {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** Connects both over loopback. Resolves with the client's name as seen by the server. */
async function meet(ca: string, server: KeyPair, client: KeyPair): Promise<string> {
  const listener = createServer({
    ca,
    cert: server.certificate,
    key: server.key,
    requestCert: true,
  });
  listener.on("secureConnection", (socket: TLSSocket) => {
    socket.on("error", () => {});
    socket.end(String(socket.getPeerCertificate().subject.CN));
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  assert.ok(address !== null && typeof address === "object");
  const socket = connect({
    host: "127.0.0.1",
    port: address.port,
    ca,
    cert: client.certificate,
    key: client.key,
  });
  try {
    const seen: string[] = [];
    for await (const text of socket.setEncoding("utf8")) seen.push(String(text));
    // A server that refuses a client under TLS 1.3 may just close the connection without data.
    assert.notEqual(seen.length, 0, "refused");
    return seen.join("");
  } finally {
    socket.destroy();
    listener.close();
  }
}
