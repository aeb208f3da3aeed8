import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock } from "@kip/testing";
import { FakeCollection } from "../testing/fake-collection.ts";
import { certificatesPem } from "./pem.ts";
import { TrustBundles } from "./trust-bundles.ts";

const beta = "/apis/certificates.k8s.io/v1beta1";
const signerName = "example.com/ca";

function bundle(name: string, blocks: readonly string[], spec = {}, labels = {}) {
  const metadata = { name, uid: `uid-${name}`, resourceVersion: "1", labels };
  return { metadata, spec: { trustBundle: `# ${name}\n${certificatesPem(blocks)}`, ...spec } };
}

function start(served: string | undefined) {
  const api = new FakeCollection<ReturnType<typeof bundle>>(served, "clustertrustbundles");
  const told: string[] = [];
  const stop = new AbortController();
  const bundles = new TrustBundles({
    client: api.client,
    clock: new ManualClock(),
    logger: silentLogger,
    signal: stop.signal,
    onChange: (uids) => void told.push(...uids),
  });
  const read = async (projection: object, uid = "u"): Promise<string> => {
    const data = await bundles.readerFor(uid).read({ path: "ca.pem", ...projection });
    return Buffer.from(data).toString();
  };
  return { api, bundles, told, read, [Symbol.dispose]: () => stop.abort() };
}

describe("TrustBundles", () => {
  it("gives the anchors of a bundle by name, and of all that a signer and labels select, each once", async () => {
    using world = start(beta);
    world.api.items = [
      bundle("own", ["AAAA", "BBBB"]),
      bundle("one", ["CCCC", "AAAA"], { signerName }, { live: "yes" }),
      bundle("two", ["AAAA", "DDDD"], { signerName }, { live: "yes" }),
      bundle("old", ["EEEE"], { signerName }, { live: "no" }),
      bundle("other", ["FFFF"], { signerName: "example.com/other" }, { live: "yes" }),
    ];
    assert.equal(await world.read({ name: "own" }), certificatesPem(["AAAA", "BBBB"]));
    const labelSelector = { matchLabels: { live: "yes" } };
    const selected = certificatesPem(["AAAA", "CCCC", "DDDD"]);
    assert.equal(await world.read({ signerName, labelSelector }), selected);
    const all = certificatesPem(["AAAA", "CCCC", "DDDD", "EEEE"]);
    assert.equal(await world.read({ signerName, labelSelector: {} }), all);
    assert.equal(await world.read({ signerName, optional: true }), "", "no selector, no bundle");
    assert.equal(world.api.queries.length, 1, "one list for all pods");
  });

  it("says what is missing in the kubelet's words, and leaves it out where it is optional", async () => {
    using world = start("/apis/certificates.k8s.io/v1alpha1");
    const byName = 'clustertrustbundle.certificates.k8s.io "none" not found';
    await assert.rejects(world.read({ name: "none" }), {
      message: `while getting ClusterTrustBundle: ${byName}`,
    });
    await assert.rejects(world.read({ signerName, labelSelector: {} }), {
      message: "combination of signerName and labelSelector matched zero ClusterTrustBundles",
    });
    assert.equal(await world.read({ name: "none", optional: true }), "");
  });

  it("has the pods that read bundles look again when one changes", async () => {
    using world = start(beta);
    await world.read({ name: "none", optional: true }, "a");
    await world.read({ name: "none", optional: true }, "b");
    world.bundles.release("b");
    await eventually(async () => {
      world.api.change("ADDED", bundle("none", ["AAAA"]));
      return world.told.length > 0;
    });
    assert.deepEqual([...new Set(world.told)], ["a"]);
    assert.equal(await world.read({ name: "none" }, "a"), certificatesPem(["AAAA"]));
  });

  it("gives the same bytes to all pods and sources that choose alike, until what they chose changes", async () => {
    using world = start(beta);
    const own = bundle("own", ["AAAA"]);
    world.api.items = [own];
    const read = async (uid: string) =>
      await world.bundles.readerFor(uid).read({ path: "ca.pem", name: "own" });
    const change = async (changed: typeof own): Promise<void> => {
      const before = world.told.length;
      await eventually(async () => {
        world.api.change("MODIFIED", changed);
        return world.told.length > before;
      });
    };
    const first = await read("a");
    assert.equal(await read("a"), first);
    assert.equal(await read("b"), first);
    await change(bundle("other", ["CCCC"]));
    assert.equal(await read("a"), first, "another bundle");
    await change(bundle("own", ["BBBB"]));
    const next = await read("a");
    assert.equal(Buffer.from(next).toString(), certificatesPem(["BBBB"]));
    assert.equal(await read("b"), next);
    world.bundles.release("a");
    assert.equal(await read("c"), next, "another pod has it still");
    world.bundles.release("b");
    world.bundles.release("c");
    assert.notEqual(await read("d"), next, "kept for no pod");
  });

  it("has pods wait where the API server has no trust bundles", async () => {
    using world = start(undefined);
    await assert.rejects(world.read({ name: "own" }), {
      code: "VK_UNRESOLVED",
      message: /the API server has no ClusterTrustBundles/,
    });
  });
});
