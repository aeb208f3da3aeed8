import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { makeVolumes, removeVolumes } from "./pod-volumes.ts";

describe("makeVolumes() and removeVolumes()", () => {
  it("leaves an emptyDir as the pod has made it when the pod is changed", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const { mounter } = fakeDependencies();
    const pod = desiredPod({ volumes: [{ name: "data", kind: "emptyDir" }] });
    const place = async (): Promise<string> =>
      (await makeVolumes(pod, directories, mounter)).get("data") ?? "";
    const mode = async (): Promise<number> => fs.statSync(await place()).mode & 0o7777;
    assert.equal(await mode(), 0o777);
    // As databases do, which refuse to start when others may read.
    fs.chmodSync(await place(), 0o700);
    assert.equal(await mode(), 0o700);
    assert.deepEqual(fs.readdirSync(path.dirname(await place())), ["data"]);
  });

  it("takes disks away first, whatever hinders the removal of other volumes", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const unmounted: string[] = [];
    const mounter = {
      ...fakeDependencies().mounter,
      unmount: async () => await Promise.reject(new Error("busy")),
      unmountDisk: async (directory: string) => void unmounted.push(path.basename(directory)),
    };
    const pod = desiredPod({ volumes: [{ name: "data", kind: "disk", serial: "vol1" }] });
    await assert.rejects(removeVolumes(pod, directories, mounter), /busy/);
    assert.deepEqual(unmounted, ["data"]);
  });
});
