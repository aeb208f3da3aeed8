import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { runCommand, systemClock } from "@kip/base";
import {
  obtainBinaries,
  obtainCoredns,
  pinned,
  programNames,
  type ReleaseSites,
} from "@kip/control-plane";
import { eventually } from "@kip/testing";
import { fetchChecksum, findChecksum } from "../src/binaries/published-checksum.ts";
import { ControlPlaneError } from "../src/errors.ts";
import { temporaryPlace } from "./support/build-place.ts";
import { openProxy, openReleaseSite, program } from "./support/release-site.ts";

type Place = Awaited<ReturnType<typeof temporaryPlace>>;

describe("obtainBinaries() with a release site", () => {
  it("downloads what matches the published checksums, and needs no Go", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite();
    const options = { ...place.options, sites: site.sites(), go: "no-such-go" };
    const binaries = await obtainBinaries(options);
    for (const name of programNames) await runCommand(binaries.paths[name]);
    await runCommand(await obtainCoredns(options));
    // Only the programs and the manifest are left.
    const left = await readdir(join(place.options.cacheDir, "kubernetes", pinned.kubernetes));
    assert.deepEqual(left.sort(), [...programNames, "manifest.json"].sort());
    const asked = site.requests.length;
    await obtainBinaries(options);
    assert.equal(site.requests.length, asked);
  });

  it("takes the SHA-512 checksum where there is no SHA-256", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({ missing: ["kubectl.sha256"] });
    await obtainBinaries({ ...place.options, sites: site.sites() });
    assert.equal(site.rangesOf("kubectl.sha512").length, 1);
    assert.equal(await place.builds(), 0);
  });

  it("builds instead where a checksum or a file is missing", async () => {
    for (const missing of [["kubectl.sha256", "kubectl.sha512"], ["SHA256SUMS"], ["kubectl"]]) {
      using place = await temporaryPlace();
      await using site = await openReleaseSite({ missing });
      await obtainBinaries({ ...place.options, sites: site.sites() });
      assert.equal(said(place, /^Cannot download .*; building instead$/).length, 1);
      assert.equal(await place.builds(), 1);
    }
  });

  it("refuses a file with another checksum, and does not build instead", async () => {
    for (const name of ["kubectl", `etcd-${pinned.etcd}-linux-amd64.tar.gz`]) {
      using place = await temporaryPlace();
      const changed = [name, name.replace("amd64", "arm64")];
      await using site = await openReleaseSite({ changed });
      await assert.rejects(
        obtainBinaries({ ...place.options, sites: site.sites() }),
        (error) =>
          ControlPlaneError.is(error, "DIGEST_MISMATCH") &&
          error.message.endsWith("its digest is not the published one"),
      );
      assert.equal(await place.builds(), 0);
    }
  });

  it("lets pinned digests win over published ones", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({ missing: ["kubectl.sha256", "SHA256SUMS"] });
    const { digests } = site;
    await obtainBinaries({ ...place.options, sites: site.sites({ digests }) });
    assert.deepEqual(
      site.requests.filter(({ name }) => /sha256|sha512|SHA256SUMS/.test(name)),
      [],
    );
    assert.equal(await place.builds(), 0);

    using other = await temporaryPlace();
    await using second = await openReleaseSite(); // other files, with checksums of their own
    await assert.rejects(
      obtainBinaries({ ...other.options, sites: second.sites({ digests }) }),
      (error) =>
        ControlPlaneError.is(error, "DIGEST_MISMATCH") && error.message.endsWith("the pinned one"),
    );
  });

  it("refuses a program of another version, whatever its checksum", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({ kubectlVersion: `${pinned.kubernetes}1` });
    await assert.rejects(
      obtainBinaries({ ...place.options, sites: site.sites() }),
      (error) =>
        ControlPlaneError.is(error, "DIGEST_MISMATCH") &&
        error.facts["found"] === `${pinned.kubernetes.slice(1)}1`,
    );
    assert.equal(await place.builds(), 0);
  });
});

describe("download of a file", () => {
  it("goes on where the connection broke or stalled", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({
      faults: {
        kubectl: [cutAt(place, 50_000), { kind: "stall", afterBytes: 70_000 }],
      },
    });
    await obtainBinaries({ ...place.options, sites: site.sites({ stallMs: 300 }) });
    assert.deepEqual(site.rangesOf("kubectl"), [undefined, "bytes=50000-", "bytes=120000-"]);
    assert.equal(await place.builds(), 0);
  });

  it("gives up a site that always stalls, and builds instead", async () => {
    using place = await temporaryPlace();
    const stall = { kind: "stall", afterBytes: 0 } as const;
    await using site = await openReleaseSite({
      faults: { kubectl: Array.from({ length: 10 }, () => stall) },
    });
    await obtainBinaries({ ...place.options, sites: site.sites({ stallMs: 200 }) });
    const lines = said(place, /kubectl": the server was silent for 0\.2 s; building instead$/);
    assert.equal(lines.length, 1);
    assert.equal(site.rangesOf("kubectl").length, 3);
    assert.equal(await place.builds(), 1);
  });

  it("goes on after an interruption of the whole start", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({
      faults: { kubectl: [{ kind: "stall", afterBytes: 60_000 }] },
    });
    const controller = new AbortController();
    const interrupted = obtainBinaries({
      ...place.options,
      sites: site.sites({ stallMs: 300 }),
      signal: controller.signal,
      onProgress: (line) => {
        // The stall has ended: 60,000 bytes are there.
        if (line.startsWith("Resuming")) controller.abort(new Error("Interrupted"));
      },
    });
    await assert.rejects(interrupted, { message: "Interrupted" });
    const before = site.requests.length;
    await obtainBinaries({ ...place.options, sites: site.sites() });
    assert.match(site.rangesOf("kubectl").at(-1) ?? "", /^bytes=\d{5,}-$/);
    // Complete files are not requested again.
    const again = site.requests.slice(before).map(({ name }) => name);
    assert.ok(!again.includes("kube-apiserver"));
    assert.equal(await place.builds(), 0);
  });

  it("starts again when the file has changed in between", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({
      faults: { kubectl: [cutAt(place, 50_000)] },
    });
    const lines: string[] = [];
    const obtained = obtainBinaries({
      ...place.options,
      sites: site.sites(),
      onProgress: (line) => {
        lines.push(line);
        if (
          line.startsWith("Downloading kubectl") &&
          lines.filter((all) => all === line).length === 1
        )
          site.replace("kubectl", program(`Client Version: ${pinned.kubernetes}`));
      },
    });
    // The whole new file was downloaded, not the rest of it. Its checksum does not match.
    await assert.rejects(obtained, (error) => ControlPlaneError.is(error, "DIGEST_MISMATCH"));
    assert.deepEqual(site.rangesOf("kubectl"), [undefined, "bytes=50000-"]);
  });

  it("refuses a file that the site says is shorter", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({
      faults: { kubectl: [{ kind: "short", bytes: 100_000 }] },
    });
    await assert.rejects(obtainBinaries({ ...place.options, sites: site.sites() }), (error) =>
      ControlPlaneError.is(error, "DIGEST_MISMATCH"),
    );
    assert.equal(await place.builds(), 0);
  });

  it("takes a whole file of an interrupted start, and drops one that is too long", async () => {
    for (const extra of ["", "more"]) {
      using place = await temporaryPlace();
      await using site = await openReleaseSite();
      const part = partOf(place);
      await mkdir(dirname(part), { recursive: true });
      await writeFile(part, Buffer.concat([site.fileOf("kubectl"), Buffer.from(extra)]));
      await obtainBinaries({ ...place.options, sites: site.sites() });
      assert.equal(site.rangesOf("kubectl").length, extra === "" ? 1 : 2);
      assert.equal(await place.builds(), 0);
    }
  });

  it("drops a rest that does not belong to the beginning", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite();
    const part = partOf(place);
    await mkdir(dirname(part), { recursive: true });
    await writeFile(part, "of another file");
    await obtainBinaries({ ...place.options, sites: site.sites() });
    assert.deepEqual(site.rangesOf("kubectl"), ["bytes=15-", undefined]);
    assert.equal(await place.builds(), 0);
  });

  it("tries again after an error of the server", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({
      faults: { kubectl: [{ kind: "status", status: 503 }] },
    });
    await obtainBinaries({ ...place.options, sites: site.sites() });
    assert.equal(await place.builds(), 0);
  });
});

describe("ReleaseSites", () => {
  it("says once for all programs that a site is closed, and builds them", async () => {
    using place = await temporaryPlace();
    const sites = await closedSites();
    const options = { ...place.options, sites };
    await Promise.all([obtainBinaries(options), obtainCoredns(options)]);
    assert.equal(said(place, /Cannot download/).length, 1);
    assert.equal(said(place, /the connection is refused; building instead$/).length, 1);
    assert.equal(await place.builds(), 2);
  });

  it("gives up within the time limit where nothing answers", async () => {
    using place = await temporaryPlace();
    const sockets: Socket[] = [];
    await using silent = createServer((socket) => void sockets.push(socket)); // and says nothing
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const address = silent.address();
    assert.ok(typeof address === "object" && address !== null);
    await using site = await openReleaseSite();
    const sites = site.sitesAt(`https://127.0.0.1:${address.port}`, { probeMs: 200 });
    await obtainBinaries({ ...place.options, sites });
    for (const socket of sockets) socket.destroy();
    assert.equal(said(place, /no answer within 0\.2 s; building instead$/).length, 1);
    assert.equal(await place.builds(), 1);
  });

  it("trusts only sites whose certificate is valid", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite();
    await obtainBinaries({ ...place.options, sites: site.sites({ ca: undefined }) });
    assert.equal(said(place, /Cannot download .*certificate/).length, 1);
    assert.equal(site.requests.length, 0);
    assert.equal(await place.builds(), 1);
  });

  it("follows no redirect from TLS to plain HTTP, and reads no checksum without TLS", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite({ isInsecure: true });
    await obtainBinaries({ ...place.options, sites: site.sites() });
    assert.equal(said(place, /redirected to .*, without TLS; building instead$/).length, 1);
    assert.equal(await place.builds(), 1);
    const settings = { sites: site.sites(), clock: systemClock, onProgress: () => {} };
    await assert.rejects(
      fetchChecksum("http://127.0.0.1:9/file", ["http://127.0.0.1:9/file.sha256"], settings),
      (error) =>
        ControlPlaneError.is(error, "DOWNLOAD_FAILED") && error.message.includes("TLS only"),
    );
  });

  it("goes by the proxy that the environment names, except where NO_PROXY says otherwise", async () => {
    for (const noProxy of ["", "releases.invalid"]) {
      using place = await temporaryPlace();
      await using site = await openReleaseSite();
      await using proxy = await openProxy(site.port);
      // A name that only a proxy can resolve.
      const env = { https_proxy: proxy.url, no_proxy: noProxy };
      await obtainBinaries({
        ...place.options,
        sites: site.sitesAt("https://releases.invalid", { env }),
      });
      const isDirect = noProxy !== "";
      assert.equal(await place.builds(), isDirect ? 1 : 0);
      assert.equal(new Set(proxy.targets).has("releases.invalid:443"), !isDirect);
      const lines = said(place, /name cannot be resolved; building instead$/);
      assert.equal(lines.length, isDirect ? 1 : 0);
    }
  });
});

describe("obtainCoredns() with a release site", () => {
  it("refuses an archive with another checksum", async () => {
    using place = await temporaryPlace();
    await using site = await openReleaseSite();
    for (const architecture of ["amd64", "arm64"])
      site.replace(`coredns_1.14.7_linux_${architecture}.tgz`, program("CoreDNS-1.14.7"));
    await assert.rejects(obtainCoredns({ ...place.options, sites: site.sites() }), (error) =>
      ControlPlaneError.is(error, "DIGEST_MISMATCH"),
    );
    assert.equal(await place.builds(), 0);
  });
});

describe("findChecksum()", () => {
  const digest = "a".repeat(64);

  it("reads a digest alone, and lists with names", () => {
    assert.equal(findChecksum(`${digest}\n`, "file"), digest);
    assert.equal(findChecksum(`${digest.toUpperCase()}  ./release/file\r\n`, "file"), digest);
    const list = `${"b".repeat(64)}  file.zip\n${digest} *file\n`;
    assert.equal(findChecksum(list, "file"), digest);
  });

  it("takes no digest of another file, and no other text", () => {
    assert.equal(findChecksum(`${digest}  other\n`, "file"), undefined);
    assert.equal(findChecksum(`${digest}\n${digest}\n`, "file"), undefined);
    assert.equal(findChecksum("<html>sign in</html>", "file"), undefined);
    assert.equal(findChecksum(digest.slice(1), "file"), undefined);
  });
});

function said({ progress }: Place, pattern: RegExp): readonly string[] {
  return progress.filter((line) => pattern.test(line));
}

/** Path of kubectl until it is complete. */
function partOf({ options }: Place): string {
  const folder = join(options.cacheDir, "kubernetes", `${pinned.kubernetes}.work`);
  return join(folder, "download/kubectl.part");
}

/** The site closes the connection once this much of kubectl is in its file. */
function cutAt(place: Place, bytes: number) {
  const part = partOf(place);
  const until = async (): Promise<void> =>
    await eventually(async () => (await readFile(part).catch(() => "")).length === bytes);
  return { kind: "cut", afterBytes: bytes, until } as const;
}

/** A site that has just been closed: connections to it are refused. */
async function closedSites(): Promise<ReleaseSites> {
  await using site = await openReleaseSite();
  return site.sites();
}
