import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pageBytesOf } from "./huge-pages.ts";

const Mi = 2 ** 20;
const small = { pageBytes: 2 * Mi, bytes: 8 * Mi };
const large = { pageBytes: 1024 * Mi, bytes: 1024 * Mi };

describe("pageBytesOf()", () => {
  it("takes the medium's size, or the only one of the pod", () => {
    assert.equal(pageBytesOf("HugePages-1Gi", { hugePages: [small, large] }), 1024 * Mi);
    assert.equal(pageBytesOf("HugePages", { hugePages: [small] }), 2 * Mi);
  });

  it("refuses what the kubelet refuses, in its words", () => {
    assert.throws(() => pageBytesOf("HugePages", { hugePages: [small, large] }), {
      message: "medium: HugePages can't be used if container requests multiple huge page sizes",
    });
    assert.throws(() => pageBytesOf("HugePages-1Gi", { hugePages: [small] }), {
      message:
        "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages",
    });
    assert.throws(() => pageBytesOf("HugePages", {}), /no resource request for huge pages/);
  });
});
