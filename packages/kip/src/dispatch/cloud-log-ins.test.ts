import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Secret, silentLogger, systemClock } from "@kip/base";
import { givesRegistryLogIns, type RegistryLogIn } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { CloudLogIns } from "./cloud-log-ins.ts";

const hour = 3_600_000;

describe("CloudLogIns", () => {
  it("shares a log-in, renews it in time, and continues without one after a failure", async () => {
    const clock = new ManualClock(0);
    let asked = 0;
    let isDown = false;
    const driver = {
      registryLogIn: async (host: string): Promise<RegistryLogIn | undefined> => {
        if (host !== "cloud.test") return undefined;
        asked++;
        if (isDown) throw new Error("throttled");
        const expiresAt = new Date(clock.now() + 12 * hour).toISOString();
        return { username: "cloud", password: new Secret(`${asked}`), expiresAt };
      },
    };
    assert.ok(givesRegistryLogIns(driver) && !givesRegistryLogIns({}));
    const logIns = new CloudLogIns(driver, { clock, logger: silentLogger });
    const find = async () => {
      const { logIns: found, renewInMs } = await logIns.find(["docker.io", "cloud.test"]);
      return [found.get("cloud.test")?.password.reveal(), renewInMs];
    };
    assert.deepEqual(await find(), ["1", 9 * hour]);
    await clock.advance(5 * hour);
    assert.deepEqual(await find(), ["1", 5.25 * hour]);
    await clock.advance(2 * hour);
    assert.deepEqual(await find(), ["2", 9 * hour]);
    await clock.advance(7 * hour);
    isDown = true;
    assert.deepEqual(await find(), [undefined, 60_000]);
    assert.deepEqual(await logIns.find(["docker.io"]), { logIns: new Map() });
  });

  it("forgets the oldest of more log-ins than an installation needs", async () => {
    let asked = 0;
    const source = {
      registryLogIn: async (): Promise<RegistryLogIn> => {
        asked += 1;
        return { username: "cloud", password: new Secret("token") };
      },
    };
    const logIns = new CloudLogIns(source, { clock: systemClock, logger: silentLogger });
    await logIns.find(Array.from({ length: 1001 }, (_, index) => `r${index}.test`));
    await logIns.find(["r1.test", "r1000.test"]);
    assert.equal(asked, 1001);
    await logIns.find(["r0.test"]);
    assert.equal(asked, 1002);
  });
});
