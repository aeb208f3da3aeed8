import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError, type LaunchRequest, type PrepareImagesRequest } from "@kip/cloud";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { testHost, testHosts } from "../testing/test-hosts.ts";
import { CurrentTerm } from "./current-term.ts";
import { fencedDriver } from "./fenced-driver.ts";

const request = {} as unknown as LaunchRequest & PrepareImagesRequest; // never looked at

describe("fencedDriver()", () => {
  it("begins nothing that changes the cloud after the term, and reads on", async () => {
    let isHeld = true;
    const prepared: unknown[] = [];
    await using cloud = createSimulatedCloud().open({ owner: "me" });
    const driver = fencedDriver(
      Object.assign(cloud, { prepareImages: (asked: unknown) => void prepared.push(asked) }),
      { isHeld: () => isHeld },
    );
    driver.prepareImages?.(request);
    isHeld = false;
    driver.prepareImages?.(request);
    assert.equal(prepared.length, 1);
    await assert.rejects(driver.launch(request), (error) =>
      CloudError.is(error, "CLOUD_UNAVAILABLE"),
    );
    assert.deepEqual(await driver.list(), []);
  });

  it("gives back no dedicated hosts after the term, and lists them", async () => {
    let isHeld = false;
    const hosts = testHosts(testHost("h-1"));
    await using cloud = createSimulatedCloud().open({ owner: "me" });
    const fenced = fencedDriver(Object.assign(cloud, { hosts }), { isHeld: () => isHeld }).hosts;
    await assert.rejects(async () => await fenced?.releaseEmpty(), { code: "CLOUD_UNAVAILABLE" });
    assert.deepEqual([await fenced?.list(), hosts.releases], [[testHost("h-1")], 0]);
    isHeld = true;
    assert.equal((await fenced?.releaseEmpty())?.length, 1);
  });

  it("has no operation that its driver lacks", async () => {
    await using cloud = createSimulatedCloud().open({ owner: "me" });
    const driver = fencedDriver(cloud, { isHeld: () => true });
    assert.equal(typeof driver.prepareImages, typeof cloud.prepareImages);
    assert.equal(driver.hosts, undefined);
  });
});

describe("CurrentTerm", () => {
  it("holds nothing before the first turn, and keeps terms of turns apart", () => {
    const current = new CurrentTerm();
    assert.equal(current.get().isHeld(), false);
    let isFirstHeld = true;
    current.begin({ isHeld: () => isFirstHeld });
    const first = current.get();
    isFirstHeld = false;
    current.begin({ isHeld: () => true });
    assert.equal(first.isHeld(), false);
    assert.equal(current.get().isHeld(), true);
  });
});
