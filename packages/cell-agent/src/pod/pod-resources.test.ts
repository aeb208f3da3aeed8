import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { DesiredPod } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

function podWith(data: string, generation: number): DesiredPod {
  const file = { path: "a", data: Buffer.from(data).toString("base64"), mode: 0o644 };
  const volumes = [{ name: "config", kind: "files" as const, files: [file] }];
  return desiredPod({ volumes, generation });
}

describe("AgentWorker, of a pod whose network cannot be made", () => {
  it("says that the pod is not prepared, until it is", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    await using worker = new AgentWorker({
      directories: agentDirectories(`${folder.path}/state`, `${folder.path}/run`),
      clock,
      logger: silentLogger,
      onChange: () => {},
    });
    const dependencies = fakeDependencies();
    let failures = 2;
    await worker.begin({
      ...dependencies,
      createSandbox: async (options) => {
        if (failures-- > 0) throw new Error("no address");
        return await dependencies.createSandbox(options);
      },
    });
    worker.put(desiredPod());
    assert.equal(worker.report()?.isUnprepared, undefined);
    await eventually(() => worker.report()?.isUnprepared === true);
    assert.equal(worker.report()?.phase, "Pending");
    await eventually(async () => {
      await clock.advance(1000);
      return worker.report()?.phase === "Running";
    });
    assert.equal(worker.report()?.isUnprepared, undefined);
  });
});

describe("AgentWorker, of a volume of files", () => {
  it("has the newest /etc/hosts although a volume cannot be brought up to date", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    await using worker = new AgentWorker({
      directories,
      clock: new ManualClock(),
      logger: silentLogger,
      onChange: () => {},
    });
    await worker.begin(fakeDependencies());
    worker.put(podWith("one", 1));
    await eventually(() => worker.report()?.phase === "Running");
    const volume = path.join(directories.secretVolumes, "config");
    fs.rmSync(volume, { recursive: true });
    fs.writeFileSync(volume, "");
    worker.put({ ...podWith("two", 2), etcHosts: "newest\n" });
    await eventually(
      () => worker.report()?.events.some(({ reason }) => reason === "FailedMount") === true,
    );
    assert.equal(fs.readFileSync(path.join(directories.podFiles, "hosts"), "utf8"), "newest\n");
  });

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
    await using worker = new AgentWorker({
      directories,
      clock: systemClock,
      logger: silentLogger,
      onChange: () => {
        changed.resolve();
        changed = Promise.withResolvers();
      },
    });
    await worker.begin({ ...dependencies, createSandbox });
    worker.put(podWith("one", 1));
    await begun.promise;
    worker.put(podWith("two", 2));
    worker.put(podWith("three", 3));
    made.resolve(sandbox);
    const file = path.join(directories.secretVolumes, "config", "a");
    const isNewest = (): boolean =>
      fs.existsSync(file) && fs.readFileSync(file, "utf8") === "three";
    await until(isNewest);
    assert.equal(fs.readFileSync(file, "utf8"), "three");
    worker.put(podWith("four", 4));
    worker.remove(0);
    await until(() => worker.report()?.isReleased === true);
    assert.deepEqual(
      [fs.existsSync(path.dirname(file)), worker.sandbox?.networkNamespace],
      [false, undefined],
    );
  });

  it("tries again to write one that failed, and keeps the pod running", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const clock = new ManualClock();
    await using worker = new AgentWorker({
      directories,
      clock,
      logger: silentLogger,
      onChange: () => {},
    });
    await worker.begin(fakeDependencies());
    worker.put(podWith("one", 1));
    await eventually(() => worker.report()?.phase === "Running");
    const place = path.join(directories.secretVolumes, "config");
    fs.rmSync(place, { recursive: true });
    fs.writeFileSync(place, "");
    const failures = (): number =>
      (worker.report()?.events ?? []).filter(({ reason }) => reason === "FailedMount").length;
    worker.put(podWith("two", 2));
    const until = async (isSo: () => boolean): Promise<void> => {
      for (let turns = 0; turns < 1000 && !isSo(); turns++) {
        await clock.advance(500);
        await setImmediate();
      }
      assert.ok(isSo());
    };
    await until(() => failures() >= 2);
    fs.rmSync(place);
    const file = path.join(place, "a");
    await until(() => fs.existsSync(file) && fs.readFileSync(file, "utf8") === "two");
    assert.equal(worker.report()?.phase, "Running");
  });
});
