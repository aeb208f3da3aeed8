import assert from "node:assert/strict";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { keptCertificate } from "./kept-certificate.ts";

describe("keptCertificate()", () => {
  it("gives the same valid certificate with its key each time, so that images stay the same", async () => {
    using cache = temporaryFolder();
    const first = await keptCertificate(cache.path);
    const parsed = new X509Certificate(first.certificate);
    assert.ok(parsed.checkPrivateKey(createPrivateKey(first.key)));
    assert.ok(parsed.validToDate > new Date());
    const { certificate, key } = await keptCertificate(cache.path);
    assert.deepEqual({ certificate, key }, { certificate: first.certificate, key: first.key });
  });

  it("makes another one when what is kept cannot be read", async () => {
    using cache = temporaryFolder();
    const first = await keptCertificate(cache.path);
    writeFileSync(path.join(cache.path, "conformance/localhost.json"), "{");
    assert.notEqual((await keptCertificate(cache.path)).key, first.key);
  });
});
