import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { PodSupervisor } from "./pod-supervisor.ts";

function podWith(data: string, generation: number): DesiredPod {
  const file = { path: "a", data: Buffer.from(data).toString("base64"), mode: 0o644 };
  const volumes = [{ name: "config", kind: "files" as const, files: [file] }];
  return desiredPod({ volumes, generation });
}

describe("a pod's volume of files", () => {
  it("has the newest files, also those that come while the first are being written, and none after the end", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const dependencies = fakeDependencies();
    const sandbox = await dependencies.createSandbox({
      runDir: "",
      hostname: "",
      logger: silentLogger,
    });
    const made = Promise.withResolvers<typeof sandbox>();
    const begun = Promise.withResolvers<void>();
    const createSandbox = async () => {
      begun.resolve();
      return await made.promise;
    };
    let changed = Promise.withResolvers<void>();
    const until = async (isSo: () => boolean): Promise<void> => {
      while (!isSo()) await changed.promise;
    };
    await using supervisor = new PodSupervisor({
      directories,
      clock: systemClock,
      logger: silentLogger,
      onChange: () => {
        changed.resolve();
        changed = Promise.withResolvers();
      },
    });
    await supervisor.begin({ ...dependencies, createSandbox });
    supervisor.put(podWith("one", 1));
    await begun.promise;
    supervisor.put(podWith("two", 2));
    supervisor.put(podWith("three", 3));
    made.resolve(sandbox);
    const file = path.join(directories.secretVolumes, "config", "a");
    const isNewest = (): boolean =>
      fs.existsSync(file) && fs.readFileSync(file, "utf8") === "three";
    await until(isNewest);
    assert.equal(fs.readFileSync(file, "utf8"), "three");
    supervisor.put(podWith("four", 4));
    supervisor.remove(0);
    await until(() => supervisor.report()?.isReleased === true);
    assert.deepEqual(
      [fs.existsSync(path.dirname(file)), supervisor.networkNamespace],
      [false, undefined],
    );
  });
});
