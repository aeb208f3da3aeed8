import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { desiredPod } from "../../test/desired-pod.ts";
import { fakeParts } from "../../test/fake-parts.ts";
import { agentDirectories } from "../agent-directories.ts";
import { PodEvents } from "./pod-events.ts";
import { GroundKeeper } from "./pod-ground-keeper.ts";

function podWith(data: string, generation: number): DesiredPod {
  const file = { path: "a", data: Buffer.from(data).toString("base64"), mode: 0o644 };
  const volumes = [{ name: "config", kind: "files" as const, files: [file] }];
  return desiredPod({ volumes, generation });
}

it("has the newest files, also those that come while the first are being written, and none after the end", async () => {
  using folder = fs.mkdtempDisposableSync(path.join(os.tmpdir(), "kip-ground-"));
  const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
  const parts = fakeParts();
  const sandbox = await parts.createSandbox({ runDir: "", hostname: "", logger: silentLogger });
  const made = Promise.withResolvers<typeof sandbox>();
  const clock = systemClock;
  const options = {
    parts: { ...parts, createSandbox: async () => await made.promise },
    directories,
    events: new PodEvents(clock),
    clock,
    logger: silentLogger,
  };
  const keeper = new GroundKeeper();
  const work = [keeper.prepare(podWith("one", 1), options)];
  work.push(keeper.refresh(podWith("two", 2), options));
  work.push(keeper.refresh(podWith("three", 3), options));
  made.resolve(sandbox);
  await Promise.all(work);
  const root = keeper.ground?.volumes.get("config") ?? "";
  assert.equal(fs.readFileSync(path.join(root, "a"), "utf8"), "three");
  const last = podWith("four", 4);
  await Promise.all([keeper.refresh(last, options), keeper.release(last, options)]);
  assert.deepEqual([fs.existsSync(root), keeper.ground], [false, undefined]);
});
