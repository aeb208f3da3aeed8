import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { moduleClosure } from "./kernel-modules.ts";

const modulesDep = [
  "kernel/virtio/virtio.ko: kernel/virtio/virtio_ring.ko",
  "kernel/virtio/virtio_ring.ko:",
  "kernel/char/virtio-rng.ko: kernel/virtio/virtio.ko kernel/virtio/virtio_ring.ko",
  "kernel/block/virtio_blk.ko.xz: kernel/virtio/virtio.ko kernel/virtio/virtio_ring.ko",
  "kernel/fs/other.ko:",
].join("\n");

describe("moduleClosure()", () => {
  it("takes the dependencies along, each once", () => {
    const closure = moduleClosure(["virtio_blk", "virtio_rng"], modulesDep);
    assert.deepEqual([...closure.keys()].sort(), [
      "kernel/block/virtio_blk.ko.xz",
      "kernel/char/virtio-rng.ko",
      "kernel/virtio/virtio.ko",
      "kernel/virtio/virtio_ring.ko",
    ]);
    assert.equal(closure.get("kernel/virtio/virtio_ring.ko"), "kernel/virtio/virtio_ring.ko:");
  });

  it("skips what is built into the kernel", () => {
    assert.equal(moduleClosure(["ext4"], modulesDep).size, 0);
  });
});
