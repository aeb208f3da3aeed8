// Data of pods on the disks of their cells, on real machines.
import assert from "node:assert/strict";
import { createPublicKey, X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { cluster, eventually, run, shellPod, type Cluster } from "./cluster.ts";

const state = "{.status.containerStatuses[0].state.waiting";
const signerName = "example.com/e2e";
const bundle = {
  apiVersion: "certificates.k8s.io/v1beta1",
  kind: "ClusterTrustBundle",
  metadata: { name: "anchors" },
};
const wait = "while :; do sleep 1; done";

describe("the disk of a cell", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("volumes");
  });

  it("evicts pods that take more of the disk than they may, and from a full disk", async () => {
    const data = (sizeLimit?: string) => ({
      volumes: [{ name: "data", emptyDir: { ...(sizeLimit !== undefined && { sizeLimit }) } }],
    });
    const mounts = { volumeMounts: [{ name: "data", mountPath: "/data" }] };
    const limits = (limit: string) => ({
      resources: { limits: { "ephemeral-storage": limit }, requests: { "ephemeral-storage": "0" } },
    });
    const write = (file: string, size: string) =>
      `dd if=/dev/zero of=${file} bs=1M count=${size}; ${wait}`;
    const fill = `i=0; while fallocate -l 64M /data/$i; do i=$((i + 1)); done; echo full; ${wait}`;
    await kube.apply(
      shellPod("volume", write("/data/file", "11"), data("10Mi"), mounts),
      shellPod("container", `mkdir /new; ${write("/new/file", "11")}`, {}, limits("10Mi")),
      shellPod("full", fill, data(), mounts),
    );
    const expected: Readonly<Record<string, RegExp>> = {
      volume: /^Usage of EmptyDir volume "data" exceeds the limit "10Mi"\. $/,
      // The pod's limit is the sum of its containers' limits, and is checked first.
      container:
        /^Pod ephemeral local storage usage exceeds the total limit of containers 10Mi\. $/,
      full: /^The node was low on resource: ephemeral-storage\. Threshold quantity: \w+, available: \w+\. (Container main was using \w+, request is 0, has larger consumption of ephemeral-storage\. )?$/,
    };
    // The agent still responds when its disk is full.
    let used = "";
    await eventually(
      "the disk to be full",
      async () => {
        used = (await kube.kubectl("exec", "full", "--", "df", "/data")).stdout || used;
        return used.includes("100%") || (await phase("full")) === "Failed";
      },
      240_000,
    );
    assert.match(used, /\d\d% \/data/);
    for (const [name, message] of Object.entries(expected)) {
      const failed = "--for=jsonpath={.status.phase}=Failed";
      await kube.ok("wait", failed, `pod/${name}`, "--timeout=240s");
      const field = async (path: string): Promise<string> =>
        await kube.ok("get", "pod", name, "-o", `jsonpath={.status.${path}}`);
      assert.equal(await field("reason"), "Evicted");
      assert.match(await field("message"), message);
      // A shell that waits for a program handles its stop signal, or is killed later.
      assert.match(await field("containerStatuses[0].state.terminated.exitCode"), /^1(37|43)$/);
      const isDisrupted = await field('conditions[?(@.type=="DisruptionTarget")].reason');
      assert.equal(isDisrupted, name === "full" ? "TerminationByKubelet" : "");
      const events = await kube.ok("events", "--for", `pod/${name}`);
      assert.match(events, /Warning +Evicted /);
    }
    await kube.ok("delete", "pods", ...Object.keys(expected), "--wait=false");
  });

  it("mounts images as volumes, and waits for one that is not there", async () => {
    const volume = (name: string) => ({
      volumes: [{ name: "files", image: { reference: `kip.local/${name}`, pullPolicy: "Always" } }],
    });
    const whole = { name: "files", mountPath: "/image" };
    const part = { name: "files", mountPath: "/part", subPath: "bin" };
    const script = [
      "ls /image/bin/sh /part/sh",
      "touch /image/new /part/new 2>&1",
      "/image/bin/sh -c true 2>&1",
    ];
    await kube.apply(
      shellPod("image", [...script, wait].join("\n"), volume("demo:latest"), {
        volumeMounts: [whole, part],
      }),
      shellPod("absent", wait, volume("absent:1"), { volumeMounts: [whole] }),
      shellPod("nowhere", wait, volume("demo:latest"), {
        volumeMounts: [{ ...part, subPath: "not/there" }],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/image", "--timeout=240s");
    const expected = [
      /^\/image\/bin\/sh$/,
      /^\/part\/sh$/,
      /\/image\/new: Read-only file system$/,
      /\/part\/new: Read-only file system$/,
      /\/image\/bin\/sh: .*Permission denied$/,
    ];
    await eventually("the end of the script", async () => {
      const lines = (await kube.ok("logs", "image")).trimEnd().split("\n");
      if (lines.length < expected.length) return false;
      for (const [index, line] of lines.entries()) assert.match(line, expected[index] ?? /^$/);
      return true;
    });
    const waiting = async (name: string, field: string): Promise<string> =>
      await kube.ok("get", "pod", name, "-o", `jsonpath=${state}.${field}}`);
    await eventually("the absent image", async () =>
      ["ErrImagePull", "ImagePullBackOff"].includes(await waiting("absent", "reason")),
    );
    assert.match(await waiting("absent", "message"), /kip\.local\/absent:1/);
    await eventually("the absent path", async () =>
      (await waiting("nowhere", "message")).startsWith("ImageVolumeMountFailed: "),
    );
    assert.equal(await waiting("nowhere", "reason"), "CreateContainerError");
    await kube.ok("delete", "pods", "image", "absent", "nowhere", "--wait=false");
  });

  it("shows trust bundles and certificates of the API in projected volumes", async () => {
    using folder = temporaryFolder();
    const openssl = async (...args: readonly string[]): Promise<string> => {
      const result = await run("openssl", args);
      assert.equal(result.status, 0, result.stderr);
      return result.stdout;
    };
    const key = path.join(folder.path, "ca.key");
    const ca = path.join(folder.path, "ca.pem");
    const self = ["-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", "/CN=e2e"];
    await openssl("req", ...self, "-out", ca);
    const trustBundle = await readFile(ca, "utf8");
    const anchors = { ...bundle, spec: { trustBundle } };
    const sources = [
      { clusterTrustBundle: { name: bundle.metadata.name, path: "ca.pem" } },
      { podCertificate: { signerName, keyType: "ECDSAP256", credentialBundlePath: "own.pem" } },
    ];
    await kube.apply(
      shellPod(
        "trusted",
        wait,
        { volumes: [{ name: "trust", projected: { sources } }] },
        { volumeMounts: [{ name: "trust", mountPath: "/trust" }] },
      ),
    );
    const told = async (text: string): Promise<void> =>
      await eventually(text, async () =>
        (await kube.ok("events", "--for", "pod/trusted")).includes(text),
      );
    await told('clustertrustbundle.certificates.k8s.io "anchors" not found');
    await kube.apply(anchors);
    await told("credential bundle is not issued yet");
    const name = await kube.ok("get", "podcertificaterequests", "-o", "name");
    const field = async (path: string): Promise<string> =>
      await kube.ok("get", name.trim(), "-o", `jsonpath={${path}}`);
    const publicKey = path.join(folder.path, "public.der");
    await writeFile(publicKey, Buffer.from(await field(".spec.pkixPublicKey"), "base64"));
    const leaf = ["-new", "-force_pubkey", publicKey, "-keyform", "DER", "-subj", "/CN=leaf"];
    const signed = ["x509", ...leaf, "-days", "1", "-CA", ca, "-CAkey", key];
    const certificateChain = await openssl(...signed);
    const status = JSON.stringify({ status: issued(certificateChain) });
    const patch = ["patch", name.trim(), "--subresource=status", "--type=merge", "-p", status];
    await kube.ok(...patch);
    await kube.ok("wait", "--for=condition=Ready", "pod/trusted", "--timeout=240s");
    const file = async (place: string): Promise<string> =>
      await kube.ok("exec", "trusted", "--", "cat", `/trust/${place}`);
    assert.equal(await file("ca.pem"), trustBundle);
    const own = await file("own.pem");
    assert.ok(own.startsWith("-----BEGIN PRIVATE KEY-----\n") && own.endsWith(certificateChain));
    const matching = createPublicKey(own.slice(0, own.indexOf("-----BEGIN CERT")));
    assert.ok(new X509Certificate(certificateChain).publicKey.equals(matching));
    await openssl("req", ...self, "-out", ca);
    const other = await readFile(ca, "utf8");
    await kube.apply({ ...bundle, spec: { trustBundle: other } });
    await eventually("the newer bundle", async () => (await file("ca.pem")) === other);
    await kube.ok("delete", "pod", "trusted", "--wait=false");
  });

  async function phase(name: string): Promise<string> {
    return await kube.ok("get", "pod", name, "-o", "jsonpath={.status.phase}");
  }
});

/** A status in which a signer has issued the certificate, with the certificate's times. */
function issued(certificateChain: string): object {
  const { validFrom, validTo } = new X509Certificate(certificateChain);
  const time = (text: string, laterMs = 0): string =>
    `${new Date(Date.parse(text) + laterMs).toISOString().slice(0, 19)}Z`;
  const condition = { type: "Issued", status: "True", reason: "Test", message: "signed" };
  return {
    certificateChain,
    notBefore: time(validFrom),
    notAfter: time(validTo),
    beginRefreshAt: time(validFrom, 12 * 3_600_000),
    conditions: [{ ...condition, lastTransitionTime: time(new Date().toISOString()) }],
  };
}
