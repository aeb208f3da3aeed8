import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { decodeProviderConfig } from "./provider-config.ts";

describe("decodeProviderConfig()", () => {
  it("applies the original's defaults", () => {
    const config = decodeProviderConfig({ cloud: { local: {} } });
    assert.equal(config.defaultVolumeBytes, 5 * 2 ** 30);
    assert.deepEqual(config.capacity, {});
    assert.equal(config.unreachableLimitMs, 90_000);
    assert.deepEqual(config.cloud, { name: "local", settings: {} });
  });

  it("takes the node's capacity by either key, capacity before the short ones", () => {
    const kubelet = { cpu: 4, pods: "30", capacity: { pods: "40", "nvidia.com/gpu": 1 } };
    const { capacity } = decodeProviderConfig({ cloud: { local: {} }, kubelet });
    assert.deepEqual(capacity, { cpu: "4", pods: "40", "nvidia.com/gpu": "1" });
  });

  it("takes a kubelet's limits of logs, and refuses those that a cell cannot keep", () => {
    const read = (kubelet: object) => decodeProviderConfig({ cloud: { local: {} }, kubelet }).logs;
    assert.equal(read({ cpu: 1 }), undefined);
    const both = { containerLogMaxSize: "1Mi", containerLogMaxFiles: 3 };
    assert.deepEqual(read(both), { maxFileBytes: 2 ** 20, maxFiles: 3 });
    const files = { containerLogMaxFiles: 7 };
    assert.deepEqual(read(files), { maxFileBytes: 10 * 2 ** 20, maxFiles: 7 });
    for (const wrong of [
      { containerLogMaxSize: "1Ki" },
      { containerLogMaxSize: "-1" },
      { containerLogMaxFiles: 1 },
      { containerLogMaxFiles: 2.5 },
    ])
      assert.throws(() => read(wrong), /kubelet\.containerLogMax/, JSON.stringify(wrong));
  });

  it("has the kubelet's folder of seccomp profiles, or another absolute one", () => {
    const root = (kubelet?: object): string =>
      decodeProviderConfig({ cloud: { local: {} }, kubelet }).seccompProfileRoot;
    assert.equal(root(), "/var/lib/kubelet/seccomp");
    assert.equal(root({ seccompProfileRoot: "/etc/kip/seccomp" }), "/etc/kip/seccomp");
    assert.throws(() => root({ seccompProfileRoot: "seccomp" }), {
      code: "CONFIG_INVALID",
      message: 'Cannot use kubelet.seccompProfileRoot "seccomp": it is not absolute',
    });
  });

  it("names the nearest key for an unknown one", () => {
    assert.throws(
      () => decodeProviderConfig({ cloud: { local: {} }, cells: { defaultInstanceTyp: "x" } }),
      (error) =>
        isCodedError(error) &&
        error.message.includes("cells.defaultInstanceTyp") &&
        error.remedy === 'Did you mean "defaultInstanceType"?',
    );
  });

  it("refuses two clouds and none", () => {
    for (const cloud of [{}, { aws: {}, gce: {} }]) {
      assert.throws(() => decodeProviderConfig({ cloud }), { code: "CONFIG_INVALID" });
    }
  });

  it("says which settings have no effect", () => {
    const config = decodeProviderConfig({
      etcd: {},
      cloud: { local: {} },
      cells: { standbyCells: [], nametag: "x" },
    });
    assert.deepEqual(config.withoutEffect, ["etcd", "cells.standbyCells"]);
  });
});
