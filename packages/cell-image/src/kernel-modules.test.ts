import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { loadOrder } from "./kernel-modules.ts";

const modulesDep = [
  "kernel/virtio/virtio.ko: kernel/virtio/virtio_ring.ko",
  "kernel/virtio/virtio_ring.ko:",
  "kernel/char/virtio-rng.ko: kernel/virtio/virtio.ko kernel/virtio/virtio_ring.ko",
  "kernel/block/virtio_blk.ko.xz: kernel/virtio/virtio.ko kernel/virtio/virtio_ring.ko",
].join("\n");

suite("loadOrder", () => {
  test("puts dependencies first, each once", () => {
    assert.deepEqual(loadOrder(["virtio_blk", "virtio_rng"], modulesDep), [
      "kernel/virtio/virtio_ring.ko",
      "kernel/virtio/virtio.ko",
      "kernel/block/virtio_blk.ko.xz",
      "kernel/char/virtio-rng.ko",
    ]);
  });

  test("skips what is built into the kernel", () => {
    assert.deepEqual(loadOrder(["ext4"], modulesDep), []);
  });
});
