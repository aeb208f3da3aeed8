// Certificates in files that another program replaces, such as cert-manager or kubeadm, and self-signed ones.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import tls from "node:tls";
import { silentLogger } from "@kip/base";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import { ManualClock } from "@kip/testing";
import { startKubeletApi, type KubeletTls } from "../src/kubelet-api/index.ts";
import { ServingTls } from "../src/node/serving-tls.ts";
import { NodeTls } from "../src/node/node-tls.ts";
import { KubeletApiFixture } from "./kubelet-api-fixture.ts";

const day = 24 * 60 * 60 * 1000;

describe("the kubelet API's certificate files", { timeout: 60_000 }, () => {
  let folder: string;
  let fixture: KubeletApiFixture;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "kip-certificates-"));
    fixture = await KubeletApiFixture.start();
  });

  after(async () => {
    await fixture[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const read = async (name: string): Promise<string> => await readFile(join(folder, name), "utf8");
  const write = async (files: Partial<KubeletTls>): Promise<void> => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  };

  function serving(clock: ManualClock, hasFiles = true): ServingTls {
    return new ServingTls({
      pair: async () =>
        hasFiles ? { certificate: await read("certificate"), key: await read("key") } : undefined,
      clientCa: async () => await read("clientCa"),
      nodeName: "n",
      ipAddress: "127.0.0.1",
      clock,
    });
  }

  it("are used for new connections when they change, and not while they cannot be used", async () => {
    const { certificate, key, clientCa } = fixture.options;
    await write({ certificate, key, clientCa });
    const clock = new ManualClock();
    const files = serving(clock);
    const first = await files.read();
    await using api = await startKubeletApi({ ...fixture.options, ...first });
    const stop = new AbortController();
    const node = new NodeTls({
      api,
      tls: first,
      reload: async () => await files.read(),
      clock,
      logger: silentLogger,
      signal: stop.signal,
    });
    const running = node.run();
    const next = await CertificateAuthority.create({ commonName: "next", validMs: day });
    const issue = async (usage: "client" | "server"): Promise<KeyPair> =>
      await next.issue({
        commonName: usage,
        ipAddresses: ["127.0.0.1"],
        usages: [usage],
        validMs: day,
      });
    const server = await issue("server");
    const client = { ...fixture.anonymous, ...pairOf(await issue("client")) };
    /** Advances the clock by a minute, and waits until the files were read and it sleeps again. */
    const reload = async (): Promise<void> => {
      while (clock.sleepers === 0) await new Promise(setImmediate);
      await clock.advance(60_000);
      while (clock.sleepers === 0) await new Promise(setImmediate);
    };
    for (const broken of [
      { certificate: server.certificate }, // the key is still the old one
      { ...server, clientCa: "" },
      { ...server, clientCa: next.certificate.slice(0, 200) },
    ]) {
      await write(broken);
      await reload();
      assert.equal(await servedBy(api.port), "CN=test");
      assert.equal((await ask(fixture.client)).status, 200);
    }
    await write({ ...server, clientCa: next.certificate });
    await reload();
    assert.equal(await servedBy(api.port), "CN=next");
    const trusted = { ca: next.certificate };
    assert.equal((await ask({ ...client, ...trusted })).status, 200);
    assert.equal((await ask({ ...fixture.client, ...trusted })).status, 401);
    stop.abort();
    await running;

    async function ask(pair: typeof fixture.client): Promise<{ status: number }> {
      return await fixture.ask("/healthz", { port: api.port }, pair);
    }
  });

  it("are not replaced by a self-signed certificate while they are missing", async () => {
    const { certificate, key, clientCa } = fixture.options;
    await write({ certificate, key, clientCa });
    let isThere = true;
    const files = new ServingTls({
      pair: async () => (isThere ? { certificate, key } : undefined),
      clientCa: async () => clientCa,
      nodeName: "n",
      ipAddress: "127.0.0.1",
      clock: new ManualClock(),
    });
    await files.read();
    isThere = false;
    await assert.rejects(files.read(), /its files are gone/);
  });

  it("are replaced by a self-signed certificate, which is renewed before its end", async () => {
    await write({ clientCa: fixture.options.clientCa });
    const clock = new ManualClock();
    const own = serving(clock, false);
    const first = await own.read();
    await clock.advance(200 * day);
    assert.deepEqual(await own.read(), first);
    await clock.advance(100 * day);
    const second = new X509Certificate((await own.read()).certificate);
    assert.ok(second.validToDate.getTime() > clock.now() + 360 * day);
    assert.ok(second.checkIP("127.0.0.1") !== undefined && second.checkHost("n") !== undefined);
  });
});

function pairOf({ certificate, key }: KeyPair): { readonly cert: string; readonly key: string } {
  return { cert: certificate, key };
}

async function servedBy(port: number): Promise<string | undefined> {
  const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { issuer } = socket.getPeerX509Certificate() ?? {};
  socket.destroy();
  return issuer;
}
