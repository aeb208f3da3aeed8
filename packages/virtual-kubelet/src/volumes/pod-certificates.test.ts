import assert from "node:assert/strict";
import { createPrivateKey, createPublicKey, verify, constants } from "node:crypto";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { paths, type KubeObject } from "@kip/k8s-client";
import { podWith } from "@kip/k8s-types/testing";
import { eventually, ManualClock } from "@kip/testing";
import { FakeCollection } from "../testing/fake-collection.ts";
import { certificatesPem } from "./pem.ts";
import { PodCertificates } from "./pod-certificates.ts";
import { createPodKey } from "./pod-key.ts";

const version = "/apis/certificates.k8s.io/v1alpha1";
const pod = podWith({
  metadata: { name: "web", namespace: "team", uid: "uid-1" },
  spec: { containers: [], nodeName: "n", serviceAccountName: "sa" },
});
const source = { signerName: "example.com/ca", keyType: "ED25519", maxExpirationSeconds: 7200 };
const hour = 3_600_000;

interface Request extends KubeObject {
  readonly status: object;
}

function start() {
  const api = new FakeCollection<Request>(version, "podcertificaterequests");
  const identity = (uid: string) => ({ metadata: { name: "x", uid, resourceVersion: "1" } });
  api.objects[paths.nodes("n")] = identity("node-uid");
  api.objects[paths.serviceAccounts("team", "sa")] = identity("account-uid");
  const clock = new ManualClock(1e12);
  const stop = new AbortController();
  const told: string[] = [];
  const certificates = new PodCertificates({
    client: api.client,
    clock,
    logger: silentLogger,
    signal: stop.signal,
    onChange: (uids) => void told.push(...uids),
  });
  const read = async (more: object = {}) =>
    await certificates.readerFor(pod).read("volume/0", { ...source, ...more });
  /** Sends the signer's answer to the request with this number. */
  const answer = async (number: number, type: string, status: object = {}): Promise<void> => {
    const name = `req-${number}`;
    const metadata = {
      name,
      namespace: "team",
      uid: name,
      resourceVersion: "1",
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "web", uid: "uid-1" }],
    };
    const conditions = [{ type, reason: "Because", message: "it is so" }];
    const before = told.length;
    const began = performance.now();
    await eventually(() => {
      // A watch that ended when the clock was advanced restarts after more time.
      if (performance.now() - began > 2000) void clock.advance(1000);
      api.change("ADDED", { metadata, status: { conditions, ...status } });
      return told.length > before;
    });
  };
  const chainOf = (text: string) => ({
    certificateChain: `noise\n${certificatesPem([text])}`,
    beginRefreshAt: new Date(clock.now() + hour).toISOString(),
  });
  return {
    api,
    clock,
    told,
    certificates,
    read,
    answer,
    chainOf,
    [Symbol.dispose]: () => stop.abort(),
  };
}

const pending = { message: "credential bundle is not issued yet" };

describe("PodCertificates", () => {
  it("asks for a certificate once, and gives key and chain when it is issued", async () => {
    using world = start();
    await assert.rejects(world.read(), pending);
    await assert.rejects(world.read(), pending);
    assert.equal(world.api.created.length, 1);
    assert.match(JSON.stringify(world.api.queries), /"fieldSelector":"spec.nodeName=n"/);
    const [{ apiVersion, kind, metadata, spec }] = world.api.created as [Record<string, object>];
    assert.deepEqual([apiVersion, kind], ["certificates.k8s.io/v1alpha1", "PodCertificateRequest"]);
    assert.deepEqual(metadata, {
      generateName: "req-",
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "web", uid: "uid-1" }],
    });
    const { pkixPublicKey = "", proofOfPossession = "", ...rest } = spec as Record<string, string>;
    assert.deepEqual(rest, {
      signerName: "example.com/ca",
      podName: "web",
      podUID: "uid-1",
      serviceAccountName: "sa",
      serviceAccountUID: "account-uid",
      nodeName: "n",
      nodeUID: "node-uid",
      maxExpirationSeconds: 7200,
    });
    await world.answer(1, "Issued", world.chainOf("AAAA"));
    const { key, chain, refreshAt } = await world.read();
    assert.equal(chain, certificatesPem(["AAAA"]));
    const der = createPublicKey(key).export({ type: "spki", format: "der" });
    assert.equal(der.toString("base64"), pkixPublicKey);
    const proof = Buffer.from(proofOfPossession, "base64");
    assert.ok(verify(null, Buffer.from("uid-1"), createPublicKey(key), proof));
    const later = refreshAt - world.clock.now();
    assert.ok(later >= hour && later <= hour + 300_000);
  });

  it("sends the key of a pod of Kubernetes 1.36 as its signers read it", async () => {
    using world = start();
    Object.assign(world.api.objects, { "/version": { major: "1", minor: "36" } });
    await assert.rejects(world.read(), pending);
    const [{ spec }] = world.api.created as [Record<string, Record<string, unknown>>];
    const { stubPKCS10Request: request, pkixPublicKey, proofOfPossession } = spec ?? {};
    assert.deepEqual(
      [typeof request, pkixPublicKey, proofOfPossession],
      ["string", undefined, undefined],
    );
  });

  it("passes the annotations on that a pod of Kubernetes 1.35 has for its signer", async () => {
    using world = start();
    const userAnnotations = { "example.com/role": "db" };
    await assert.rejects(world.read({ userAnnotations }), pending);
    const [{ spec }] = world.api.created as [Record<string, Record<string, unknown>>];
    assert.deepEqual(spec?.["unverifiedUserAnnotations"], userAnnotations);
  });

  it("shows the old certificate until the next one is issued", async () => {
    using world = start();
    await assert.rejects(world.read(), pending);
    await world.answer(1, "Issued", world.chainOf("AAAA"));
    const first = await world.read();
    await world.clock.advance(first.refreshAt - world.clock.now());
    assert.equal((await world.read()).chain, first.chain);
    assert.equal((await world.read()).key, first.key);
    assert.equal(world.api.created.length, 2);
    await world.answer(2, "Issued", world.chainOf("BBBB"));
    const next = await world.read();
    assert.equal(next.chain, certificatesPem(["BBBB"]));
    assert.notEqual(next.key, first.key);
  });

  it("says for good that a request was denied", async () => {
    using world = start();
    await assert.rejects(world.read(), pending);
    await world.answer(1, "Denied");
    for (const turn of [1, 2])
      await assert.rejects(
        world.read(),
        {
          message:
            'PodCertificateRequest was permanently denied: reason="Because" message="it is so"',
        },
        `${turn}`,
      );
    assert.equal(world.api.created.length, 1);
  });

  for (const type of ["Denied", "Failed"])
    it(`shows the old certificate when a renewal is ${type}, and asks again later`, async () => {
      using world = start();
      await assert.rejects(world.read(), pending);
      await world.answer(1, "Issued", world.chainOf("AAAA"));
      const first = await world.read();
      await world.clock.advance(first.refreshAt - world.clock.now());
      await world.read();
      await world.answer(2, type);
      const kept = await world.read();
      assert.deepEqual([kept.key, kept.chain], [first.key, first.chain]);
      await world.read();
      assert.equal(world.api.created.length, 2, "not at once");
      assert.ok(kept.refreshAt > world.clock.now());
      await world.clock.advance(kept.refreshAt - world.clock.now());
      assert.equal((await world.read()).chain, first.chain);
      assert.equal(world.api.created.length, 3);
      await world.answer(3, "Issued", world.chainOf("BBBB"));
      assert.equal((await world.read()).chain, certificatesPem(["BBBB"]));
    });

  it("shows the old certificate while the next cannot be asked for", async () => {
    using world = start();
    const account = paths.serviceAccounts("team", "sa");
    const { [account]: found = {} } = world.api.objects;
    await assert.rejects(world.read(), pending);
    await world.answer(1, "Issued", world.chainOf("AAAA"));
    const first = await world.read();
    delete world.api.objects[account];
    await world.clock.advance(first.refreshAt - world.clock.now());
    const kept = await world.read();
    assert.deepEqual([kept.key, kept.chain], [first.key, first.chain]);
    assert.ok(kept.refreshAt > world.clock.now());
    world.api.objects[account] = found;
    await world.clock.advance(kept.refreshAt - world.clock.now());
    await world.read();
    assert.equal(world.api.created.length, 2);
  });

  it("asks again when a request was deleted", async () => {
    using world = start();
    await assert.rejects(world.read(), pending);
    await world.clock.advance(601_000);
    await assert.rejects(world.read(), pending);
    assert.equal(world.api.created.length, 2);
  });
});

interface DerValue {
  readonly whole: Buffer;
  readonly content: Buffer;
}

/** A sequence of DER values. */
function derValues(der: Buffer = Buffer.alloc(0)): readonly DerValue[] {
  const values: DerValue[] = [];
  for (let at = 0; at < der.length;) {
    const first = der.readUInt8(at + 1);
    const more = first < 0x80 ? 0 : first - 0x80;
    const begin = at + 2 + more;
    const end = begin + (more === 0 ? first : der.readUIntBE(at + 2, more));
    values.push({ whole: der.subarray(at, end), content: der.subarray(begin, end) });
    at = end;
  }
  return values;
}

describe("createPodKey()", () => {
  for (const type of ["RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"])
    it(`proves the possession of a key of type ${type}`, async () => {
      const { privatePem, publicKey, proof, request } = await createPodKey(type, "uid");
      const key = createPublicKey({
        key: Buffer.from(publicKey, "base64"),
        format: "der",
        type: "spki",
      });
      assert.ok(createPublicKey(createPrivateKey(privatePem)).equals(key));
      const padding = { key, padding: constants.RSA_PKCS1_PSS_PADDING };
      const by = type.startsWith("RSA") ? padding : key;
      const hash = type === "ED25519" ? null : "sha256";
      assert.ok(verify(hash, Buffer.from("uid"), by, Buffer.from(proof, "base64")));
      const [whole] = derValues(Buffer.from(request, "base64"));
      const [info, , signature] = derValues(whole?.content);
      assert.ok(info && signature);
      assert.ok(verify(hash, info.whole, key, signature.content.subarray(1)));
      assert.deepEqual(derValues(info.content)[2]?.whole, Buffer.from(publicKey, "base64"));
    });

  it("refuses another type", async () => {
    await assert.rejects(createPodKey("DSA", "uid"), { message: 'unknown key type "DSA"' });
  });
});
