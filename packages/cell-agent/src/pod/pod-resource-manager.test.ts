import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { PodEvents } from "../state/pod-events.ts";
import { PodResourceManager } from "./pod-resource-manager.ts";

function podWith(data: string, generation: number): DesiredPod {
  const file = { path: "a", data: Buffer.from(data).toString("base64"), mode: 0o644 };
  const volumes = [{ name: "config", kind: "files" as const, files: [file] }];
  return desiredPod({ volumes, generation });
}

it("has the newest files, also those that come while the first are being written, and none after the end", async () => {
  using folder = fs.mkdtempDisposableSync(path.join(os.tmpdir(), "kip-resources-"));
  const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
  const dependencies = fakeDependencies();
  const sandbox = await dependencies.createSandbox({
    runDir: "",
    hostname: "",
    logger: silentLogger,
  });
  const made = Promise.withResolvers<typeof sandbox>();
  const clock = systemClock;
  const options = {
    dependencies: { ...dependencies, createSandbox: async () => await made.promise },
    directories,
    events: new PodEvents(clock),
    clock,
    logger: silentLogger,
  };
  const actor = new PodResourceManager();
  const work = [actor.prepare(podWith("one", 1), options)];
  work.push(actor.refresh(podWith("two", 2), options));
  work.push(actor.refresh(podWith("three", 3), options));
  made.resolve(sandbox);
  await Promise.all(work);
  const root = actor.resources?.volumes.get("config") ?? "";
  assert.equal(fs.readFileSync(path.join(root, "a"), "utf8"), "three");
  const last = podWith("four", 4);
  await Promise.all([actor.refresh(last, options), actor.release(last, options)]);
  assert.deepEqual([fs.existsSync(root), actor.resources], [false, undefined]);
});
