import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerReport, PodReport } from "@kip/agent-api";
import { podWith } from "@kip/k8s-types/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { KnownImages } from "./launch-images.ts";

const digest = `sha256:${"a".repeat(64)}`;

/** A cell's report for a pod with these images. */
function learn(known: KnownImages, ...containers: readonly Partial<ContainerReport>[]): void {
  const images = containers.map(({ image = "" }) => image);
  known.learn(report(...containers), pod(images).pod);
}

function report(...containers: readonly Partial<ContainerReport>[]): PodReport {
  return { initContainers: [], containers } as unknown as PodReport;
}

function pod(images: readonly string[], pullSecrets: readonly unknown[] = []): ResolvedPod {
  const containers = images.map((image, index) => ({ name: `c${index}`, image }));
  return {
    pod: podWith({ spec: { containers } }),
    env: new Map(),
    lateEnv: new Map(),
    files: new Map(),
    pullSecrets,
  };
}

describe("KnownImages", () => {
  it("knows what a name meant last", () => {
    const known = new KnownImages();
    assert.equal(known.imagesOf(pod(["app"]), { registries: [] }), undefined);
    learn(known, { image: "app", imageId: `docker.io/library/app@sha256:${"0".repeat(64)}` });
    learn(known, { image: "app", imageId: `docker.io/library/app@${digest}` });
    assert.deepEqual(known.imagesOf(pod(["app", "app"]), { registries: [] }), {
      references: [`docker.io/library/app@${digest}`],
      pull: '{"registries":[]}',
    });
  });

  it("returns nothing for a pod with an unknown image", () => {
    const known = new KnownImages();
    learn(known, { image: "app", imageId: `docker.io/library/app@${digest}` }, { image: "b" });
    assert.equal(known.imagesOf(pod(["app", "b"]), { registries: [] }), undefined);
  });

  it("returns no images that need credentials, and no credentials", () => {
    const known = new KnownImages();
    learn(known, { image: "r.test/app", imageId: `r.test/app@${digest}` });
    const secret = { auths: { "r.test": { username: "u", password: "p" } } };
    assert.equal(known.imagesOf(pod(["r.test/app"], [secret]), { registries: [] }), undefined);
    const own = [
      { host: "other.test", username: "u", password: "p" },
      { host: "r.test", endpoint: "http://r.test" },
    ];
    assert.deepEqual(
      JSON.parse(known.imagesOf(pod(["r.test/app"]), { registries: own })?.pull ?? ""),
      {
        registries: [own[1]],
      },
    );
  });

  it("hostile cell: is not believed of other images than its pod's, nor where one comes from", () => {
    const known = new KnownImages();
    const evil = `evil.test/app@${digest}`;
    const mine = pod(["mine"]).pod;
    known.learn(report({ image: "app", imageId: `docker.io/library/app@${digest}` }), mine);
    for (const imageId of [evil, "docker.io/library/mine:1", "mine", `x y@${digest}`])
      known.learn(report({ image: "mine", imageId }), mine);
    for (const image of ["app", "mine"])
      assert.equal(known.imagesOf(pod([image]), { registries: [] }), undefined, image);
  });

  it("forgets the oldest names", () => {
    const known = new KnownImages();
    for (let count = 0; count <= 1000; count++)
      learn(known, { image: `app:${count}`, imageId: `docker.io/library/app@${digest}` });
    assert.equal(known.imagesOf(pod(["app:0"]), { registries: [] }), undefined);
    assert.ok(known.imagesOf(pod(["app:1"]), { registries: [] }));
  });
});
