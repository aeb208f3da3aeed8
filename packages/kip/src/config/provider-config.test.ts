import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isKipError } from "@kip/base";
import { decodeProviderConfig } from "./provider-config.ts";

describe("decodeProviderConfig()", () => {
  it("applies the original's defaults", () => {
    const config = decodeProviderConfig({ cloud: { local: {} } });
    assert.equal(config.defaultVolumeBytes, 5 * 2 ** 30);
    assert.deepEqual(config.capacity, { cpu: "20", memory: "100Gi", pods: "20" });
    assert.equal(config.healthyMs, 90_000);
    assert.deepEqual(config.cloud, { name: "local", settings: {} });
  });

  it("names the nearest key for an unknown one", () => {
    assert.throws(
      () => decodeProviderConfig({ cloud: { local: {} }, cells: { defaultInstanceTyp: "x" } }),
      (error) =>
        isKipError(error) &&
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
