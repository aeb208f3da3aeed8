import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodSpec, Volume } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { fakeReferences, type FakeObjects } from "../testing/fake-references.ts";
import { volumeContent, type VolumeContent } from "./volume-files.ts";

const pod = podWith({
  metadata: { name: "web", namespace: "team", uid: "u1", labels: { app: "shop" } },
  spec: { containers: [{ name: "main", resources: { limits: { cpu: "2" } } }] },
});

const objects: FakeObjects = {
  "ConfigMap/c": { b: "2", a: "1" },
  "Secret/s": { key: "top" },
};

async function files(volume: Omit<Volume, "name">, anchors = "anchors of", ofPod = pod) {
  const events: string[] = [];
  const content: VolumeContent | undefined = await volumeContent(
    { name: "v", ...volume },
    {
      pod: ofPod,
      references: fakeReferences(objects),
      tokens: {
        token: async ({ audience = "api", expirationSeconds }) => ({
          data: Buffer.from(`token for ${audience} ${expirationSeconds}`),
          refreshAt: 5000,
        }),
      },
      trustAnchors: { read: async ({ name }) => Buffer.from(`${anchors} ${name}`) },
      certificates: {
        read: async (place, { signerName }) => ({
          key: `key of ${place};`,
          chain: `signed by ${signerName}`,
          refreshAt: 7000,
        }),
      },
      allocatable: {},
      notify: ({ reason, message }) => events.push(`${reason}: ${message}`),
    },
  ).catch(() => ({ files: [] }));
  return {
    refreshAt: content?.refreshAt,
    events,
    access: content?.files.map(
      ({ path, mode, owner }) => `${path} ${mode.toString(8)} ${owner ?? "-"}`,
    ),
    list: content?.files.map(
      ({ path, data, mode }) => `${path} ${mode.toString(8)} ${Buffer.from(data).toString()}`,
    ),
  };
}

describe("volumeContent()", () => {
  it("refuses a pod whose trust bundles take more than 8 MiB, one named many times included", async () => {
    const sources = Array.from({ length: 9 }, (_, index) => ({
      clusterTrustBundle: { name: "roots", path: `ca-${index}.pem` },
    }));
    const { events } = await files({ projected: { sources } }, "x".repeat(2 ** 20));
    assert.match(events.join(), /expanded variables, fields and trust bundles are larger than/);
    const { list } = await files(
      { projected: { sources: sources.slice(0, 7) } },
      "x".repeat(2 ** 20),
    );
    assert.equal(list?.length, 7);
  });

  it("refuses a pod whose tokens take more than 8 MiB: each lifetime is a token of its own", async () => {
    const sources = Array.from({ length: 9 }, (_, index) => ({
      serviceAccountToken: {
        audience: "x".repeat(2 ** 20),
        expirationSeconds: 600 + index,
        path: `${index}`,
      },
    }));
    const { events } = await files({ projected: { sources } });
    assert.match(events.join(), /expanded variables, fields and trust bundles are larger than/);
    assert.equal((await files({ projected: { sources: sources.slice(0, 7) } })).list?.length, 7);
  });

  it("shows all keys of a ConfigMap, sorted, with the default mode", async () => {
    const { list } = await files({ configMap: { name: "c" } });
    assert.deepEqual(list, ["a 644 1", "b 644 2"]);
  });

  it("shows the chosen keys of a Secret under their paths, with their modes", async () => {
    const items = [{ key: "key", path: "dir/file", mode: 0o400 }];
    const { list } = await files({ secret: { secretName: "s", items, defaultMode: 0o440 } });
    assert.deepEqual(list, ["dir/file 400 top"]);
    const all = await files({ secret: { secretName: "s", defaultMode: 0o440 } });
    assert.deepEqual(all.list, ["key 440 top"]);
  });

  it("waits for mandatory objects and keys, with the kubelet's messages", async () => {
    const missing = await files({ configMap: { name: "none" } });
    const text = 'MountVolume.SetUp failed for volume "v" : configmap "none" not found';
    assert.deepEqual(missing.events, [`FailedMount: ${text}`]);
    const key = await files({ secret: { secretName: "s", items: [{ key: "no", path: "p" }] } });
    assert.match(key.events[0] ?? "", /: references non-existent secret key: no$/);
    const item = await files({ configMap: { name: "c", items: [{ key: "no", path: "p" }] } });
    assert.match(item.events[0] ?? "", /: configmap references non-existent config key: no$/);
  });

  it("shows key and certificates of a pod together, or each for itself", async () => {
    const podCertificate = {
      signerName: "s",
      keyType: "ED25519",
      keyPath: "key",
      certificateChainPath: "chain",
    };
    const both = { signerName: "t", keyType: "ED25519", credentialBundlePath: "both" };
    const clusterTrustBundle = { name: "b", path: "ca" };
    const sources = [{ podCertificate }, { podCertificate: both }, { clusterTrustBundle }];
    const { list, refreshAt } = await files({ projected: { sources, defaultMode: 0o400 } });
    assert.deepEqual(list, [
      "key 400 key of v/0;",
      "chain 400 signed by s",
      "both 400 key of v/1;signed by t",
      "ca 400 anchors of b",
    ]);
    assert.equal(refreshAt, 7000);
  });

  it("leaves out optional objects and keys", async () => {
    assert.deepEqual((await files({ secret: { secretName: "none", optional: true } })).list, []);
    const items = [
      { key: "no", path: "p" },
      { key: "a", path: "q" },
    ];
    const { list } = await files({ configMap: { name: "c", optional: true, items } });
    assert.deepEqual(list, ["q 644 1"]);
  });

  it("shows fields and resources of the pod", async () => {
    const { list } = await files({
      downwardAPI: {
        defaultMode: 0o600,
        items: [
          { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
          {
            path: "cpu",
            resourceFieldRef: { containerName: "main", resource: "limits.cpu", divisor: "1m" },
            mode: 0o644,
          },
        ],
      },
    });
    assert.deepEqual(list, ['labels 600 app="shop"', "cpu 644 2000"]);
  });

  it("combines several sources in a projected volume, with a token that expires", async () => {
    const { list, refreshAt } = await files({
      projected: {
        sources: [
          { serviceAccountToken: { path: "token", audience: "vault", expirationSeconds: 600 } },
          { configMap: { name: "c", items: [{ key: "a", path: "same" }] } },
          { secret: { name: "s", items: [{ key: "key", path: "same" }] } },
        ],
      },
    });
    assert.deepEqual(list, ["token 644 token for vault 600", "same 644 top"]);
    assert.equal(refreshAt, 5000);
  });

  it("gives tokens, trust bundles and keys to the only user of a pod's containers", async () => {
    const sources = [
      { serviceAccountToken: { path: "token" } },
      { clusterTrustBundle: { name: "b", path: "ca" } },
      { podCertificate: { signerName: "s", keyType: "ED25519", keyPath: "key" } },
      { secret: { name: "s", items: [{ key: "key", path: "secret" }] } },
    ];
    const accessIn = async (spec: Partial<PodSpec>): Promise<string | undefined> => {
      const owned = podWith({ ...pod, spec: { ...pod.spec, ...spec } });
      return (await files({ projected: { sources } }, "", owned)).access?.join();
    };
    const user = (runAsUser: number) => ({ securityContext: { runAsUser } });
    const main = { name: "main" };
    const two = [main, { name: "other", ...user(7) }];
    const open = "token 644 -,ca 644 -,key 644 -,secret 644 -";
    assert.equal(await accessIn({}), open);
    assert.equal(await accessIn({ containers: two }), open);
    assert.equal(await accessIn({ ...user(5), containers: two }), open);
    assert.equal(await accessIn({ ...user(0) }), "token 600 0,ca 600 0,key 600 0,secret 644 -");
    const all = { ...user(7), containers: two, initContainers: [main] };
    assert.equal(await accessIn(all), "token 600 7,ca 600 7,key 600 7,secret 644 -");
    assert.equal(
      await accessIn({ securityContext: { fsGroup: 2000 } }),
      "token 600 -,ca 600 -,key 600 -,secret 644 -",
    );
  });

  it("ignores other kinds of volumes", async () => {
    assert.equal((await files({ emptyDir: {} })).list, undefined);
  });
});
