import assert from "node:assert/strict";
import { readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { CertificateFiles, type LeafOptions } from "./certificate-files.ts";

const day = 24 * 3_600_000;
const server: LeafOptions = { commonName: "s", ipAddresses: ["198.18.0.1"], usages: ["server"] };

describe("CertificateFiles", () => {
  it("gives the same certificates again, with keys that only the owner reads", async () => {
    using place = temporaryFiles();
    const first = await issue(place.files());
    assert.deepEqual(await issue(place.files()), first);
    for (const file of await readdir(place.directory))
      assert.equal((await stat(join(place.directory, file))).mode & 0o777, 0o600);
  });

  it("renews an end certificate in time, the authority stays", async () => {
    using place = temporaryFiles();
    const first = await issue(place.files());
    const later = await issue(place.files(310 * day));
    assert.equal(later.ca, first.ca);
    assert.notEqual(later.leaf.certificate, first.leaf.certificate);
  });

  it("makes a new certificate for further addresses, and after the authority's renewal", async () => {
    using place = temporaryFiles();
    const first = await issue(place.files());
    const further = await issue(place.files(), { ...server, ipAddresses: ["198.18.0.9"] });
    assert.notEqual(further.leaf.certificate, first.leaf.certificate);
    const decadeLater = await issue(place.files(3640 * day));
    assert.notEqual(decadeLater.ca, first.ca);
    assert.notEqual(decadeLater.leaf.certificate, further.leaf.certificate);
  });

  it("recovers from a start that ended between a key and its certificate", async () => {
    using place = temporaryFiles();
    const first = await issue(place.files());
    await rm(join(place.directory, "server.crt"));
    await writeFile(join(place.directory, "server.key"), "cut o");
    const second = await issue(place.files());
    assert.equal(second.ca, first.ca);
    assert.notEqual(second.leaf.key, first.leaf.key);
  });

  it("keeps the key of service-account tokens", async () => {
    using place = temporaryFiles();
    const { keyPath, publicPath } = await place.files().tokenKey("tokens");
    const before = await stat(keyPath);
    await rm(publicPath);
    await place.files().tokenKey("tokens");
    assert.equal((await stat(keyPath)).ino, before.ino);
    await stat(publicPath);
  });
});

async function issue(files: CertificateFiles, options: LeafOptions = server) {
  const authority = await files.authority("ca", "test");
  return { ca: authority.certificate, leaf: await files.leaf("server", authority, options) };
}

function temporaryFiles() {
  const folder = temporaryFolder();
  const directory = folder.path;
  return {
    directory,
    files: (afterMs = 0) =>
      new CertificateFiles({
        directory,
        clock: new ManualClock(Date.now() + afterMs),
      }),
    [Symbol.dispose]: () => folder.remove(),
  };
}
