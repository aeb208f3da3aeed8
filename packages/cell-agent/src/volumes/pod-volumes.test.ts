import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import type { Mounter } from "./mounter.ts";
import { makeVolumes, refreshVolumes, removeVolumes } from "./pod-volumes.ts";

const MiB = 2 ** 20;

function fileOf(name: string, text: string) {
  return { path: name, data: Buffer.from(text).toString("base64"), mode: 0o644 };
}

describe("makeVolumes() and removeVolumes()", () => {
  it("leaves an emptyDir as the pod has made it when the pod is changed", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const { mounter } = fakeDependencies();
    const pod = desiredPod({ volumes: [{ name: "data", kind: "emptyDir" }] });
    const place = async (): Promise<string> =>
      (await makeVolumes(pod, { directories, mounter })).get("data") ?? "";
    const mode = async (): Promise<number> => fs.statSync(await place()).mode & 0o7777;
    assert.equal(await mode(), 0o777);
    // Databases do this, and refuse to start if others may read.
    fs.chmodSync(await place(), 0o700);
    assert.equal(await mode(), 0o700);
    assert.deepEqual(fs.readdirSync(path.dirname(await place())), ["data"]);
  });

  it("brings volumes of files up to date, each by itself, and no others", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const host = `${folder.path}/file`;
    fs.writeFileSync(host, "");
    const podOf = (text: string, badPath = "k"): DesiredPod =>
      desiredPod({
        volumes: [
          { name: "bad", kind: "files", files: [fileOf(badPath, text)] },
          { name: "host", kind: "hostPath", hostPath: host, hostPathType: "File" },
          { name: "token", kind: "files", files: [fileOf("k", text)] },
        ],
      });
    const options = { directories, mounter: fakeDependencies().mounter };
    const places = await makeVolumes(podOf("old"), options);
    fs.rmSync(host);
    assert.throws(() => refreshVolumes(podOf("new", "../k"), directories), {
      code: "AGENT_VOLUME_FAILED",
      message: /^MountVolume.SetUp failed for volume "bad" : /,
    });
    assert.equal(fs.readFileSync(`${places.get("token")}/k`, "utf8"), "new");
    refreshVolumes(podOf("newest"), directories);
    assert.equal(fs.readFileSync(`${places.get("bad")}/k`, "utf8"), "newest");
    await assert.rejects(makeVolumes(podOf("newest"), options), /hostPath type check failed/);
    assert.equal((await makeVolumes(podOf("newest"), { ...options, hasRun: true })).size, 3);
  });

  it("keeps the files of a volume that are not known, and makes none without files", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const options = { directories, mounter: fakeDependencies().mounter };
    const kept = desiredPod({ volumes: [{ name: "c", kind: "files", keepsFiles: true }] });
    await assert.rejects(makeVolumes(kept, options), {
      message: 'MountVolume.SetUp failed for volume "c" : what its files come from does not exist',
    });
    const volumes = [{ name: "c", kind: "files" as const, files: [fileOf("k", "text")] }];
    const places = await makeVolumes(desiredPod({ volumes }), options);
    refreshVolumes(kept, directories);
    assert.deepEqual(await makeVolumes(kept, options), places);
    assert.equal(fs.readFileSync(`${places.get("c")}/k`, "utf8"), "text");
  });

  it("makes a file of the cell in a folder that a later volume makes, at the next try", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const options = { directories, mounter: fakeDependencies().mounter };
    const hostPath = `${folder.path}/data`;
    const file = `${hostPath}/file`;
    const pod = desiredPod({
      volumes: [
        { name: "file", kind: "hostPath", hostPath: file, hostPathType: "FileOrCreate" },
        { name: "folder", kind: "hostPath", hostPath, hostPathType: "DirectoryOrCreate" },
      ],
    });
    await assert.rejects(makeVolumes(pod, options), {
      code: "AGENT_VOLUME_FAILED",
      message: `MountVolume.SetUp failed for volume "file" : open ${file}: no such file or directory`,
    });
    await makeVolumes(pod, options);
    assert.ok(fs.statSync(file).isFile());
  });

  it("sizes a volume in memory by the machine, the pod's limit and its own, as a kubelet does", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const sizes: (number | undefined)[] = [];
    const mounter: Mounter = {
      ...fakeDependencies().mounter,
      mountTmpfs: async (_directory, { sizeBytes }) =>
        void sizes.push(sizeBytes === undefined ? undefined : sizeBytes / MiB),
    };
    const inMemory = { kind: "emptyDir", medium: "Memory" } as const;
    const make = async (memoryBytesLimit: number | undefined): Promise<void> => {
      const pod = desiredPod({
        machine: { cpuMilli: 1000, memoryBytes: 512 * MiB },
        containers: [container("web", { memoryBytesLimit })],
        volumes: [
          { ...inMemory, name: "small", sizeLimitBytes: 10 * MiB },
          { ...inMemory, name: "large", sizeLimitBytes: 1024 * MiB },
          { ...inMemory, name: "any" },
          { name: "pages", kind: "emptyDir", medium: "HugePages-2Mi" },
        ],
        hugePages: [{ pageBytes: 2 * MiB, bytes: 2 * MiB }],
      });
      await makeVolumes(pod, { directories, mounter });
    };
    await make(100 * MiB);
    await make(undefined);
    assert.deepEqual(sizes, [10, 100, 100, undefined, 10, 512, 512, undefined]);
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
