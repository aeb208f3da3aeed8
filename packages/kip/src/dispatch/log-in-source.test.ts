import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { Secret } from "@kip/base";
import type { CloudDriver, RegistryLogIns } from "@kip/cloud";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { logInSource } from "./log-in-source.ts";

const clock = new ManualClock(0);

describe("logInSource()", () => {
  it("asks the file of docker login, its helpers, then the cloud", async () => {
    using work = temporaryFolder();
    const dockerConfig = path.join(work.path, "config.json");
    const auths = { "file.test": { auth: Buffer.from("ann:a").toString("base64") } };
    const credHelpers = { "helper.test": "test" };
    await writeFile(dockerConfig, JSON.stringify({ auths, credHelpers }));
    const answer = JSON.stringify({ Username: "bob", Secret: "b" });
    const helper = path.join(work.path, "docker-credential-test");
    await writeFile(helper, `#!/bin/sh\necho '${answer}'\n`, { mode: 0o755 });
    const logIns: RegistryLogIns = {
      registryLogIn: async () => ({ username: "cloud", password: new Secret("c") }),
    };
    const driver = logIns as RegistryLogIns & CloudDriver; // the fields that are read
    const source = logInSource({ dockerConfig, driver, clock, path: `${work.path}:/bin` });
    const find = async (host: string): Promise<unknown> => {
      const { username, password, expiresAt } = (await source?.registryLogIn(host)) ?? {};
      return [username, password?.reveal(), expiresAt];
    };
    assert.deepEqual(await find("file.test"), ["ann", "a", "1970-01-01T04:00:00.000Z"]);
    assert.deepEqual(await find("helper.test"), ["bob", "b", "1970-01-01T04:00:00.000Z"]);
    assert.deepEqual(await find("other.test"), ["cloud", "c", undefined]);
    assert.equal(logInSource({ dockerConfig: undefined, driver, clock }), driver);
    const none = {} as CloudDriver; // a driver without log-ins
    assert.equal(logInSource({ dockerConfig: undefined, driver: none, clock }), undefined);
  });
});
