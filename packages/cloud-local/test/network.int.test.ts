import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { after, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { hostSnapshot } from "./support/host-snapshot.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const name = "kiptnet";
const test = await prepareTestCloud(name, 1);
const range = test.options.range ?? "";
after(() => test.remove());

describe("LocalNetwork", { timeout: 120_000 }, () => {
  it("leaves nothing on the host", async () => {
    const before = await hostSnapshot(name, range);
    await using cloud = await test.open({ internet: "auto" });
    await cloud.prepareNetwork();
    await cloud.prepareNetwork();
    const during = await hostSnapshot(name, range);
    assert.ok(during.length > before.length);
    await cloud.removeNetwork();
    await cloud.removeNetwork();
    assert.deepEqual(await hostSnapshot(name, range), before);
  });

  it("adds one device, one address and its route to the host, no rule", async () => {
    const rules = async (): Promise<string> =>
      (await runCommand("nft", ["list", "ruleset"])).stdout;
    const before = await rules();
    await using cloud = await test.open();
    await cloud.prepareNetwork();
    const routes = (await runCommand("ip", ["-o", "route", "show", "dev", `${name}0`])).stdout;
    assert.match(
      routes,
      new RegExp(`^${range} proto kernel scope link src ${cloud.hostAddress} ?\n$`),
    );
    assert.equal(await rules(), before);
    await cloud.removeNetwork();
  });

  it("refuses a name that another state folder's network has, and leaves that network alone", async () => {
    await using first = await test.open();
    await first.prepareNetwork();
    const before = await hostSnapshot(name, range);
    await using second = await test.open({ stateDir: `${test.folder}/second` });
    await assert.rejects(second.prepareNetwork(), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_INVALID_REQUEST"));
      assert.match(String(error), /Cannot use network namespace "kiptnet": the local cloud in "/);
      return true;
    });
    await assert.rejects(second.launch(machineRequest()), /Cannot use network namespace/);
    await second.removeNetwork();
    assert.deepEqual(await hostSnapshot(name, range), before);
    await first.removeNetwork();
    await second.prepareNetwork();
    await second.removeNetwork();
  });

  it("replaces a network whose state folder was deleted", async () => {
    const stateDir = `${test.folder}/deleted`;
    await using lost = await test.open({ stateDir });
    await lost.prepareNetwork();
    await rm(stateDir, { recursive: true });
    await using cloud = await test.open();
    await cloud.prepareNetwork();
    await cloud.removeNetwork();
  });

  it("refuses a range that the host has a route into", async () => {
    const device = `${name}x`;
    await runCommand("ip", ["link", "add", device, "type", "bridge"]);
    try {
      const [first = ""] = range.split("/");
      await runCommand("ip", ["addr", "add", `${first}/24`, "dev", device]);
      await runCommand("ip", ["link", "set", device, "up"]);
      await using cloud = await test.open();
      await assert.rejects(cloud.prepareNetwork(), (error) => {
        assert.ok(CloudError.is(error, "CLOUD_INVALID_REQUEST"));
        assert.match(String(error), /this machine has the route "198\.18\.\d+\.0\/24 dev kiptnetx/);
        return true;
      });
    } finally {
      await runCommand("ip", ["link", "delete", device]);
    }
  });
});
