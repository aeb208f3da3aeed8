import assert from "node:assert/strict";
import { existsSync, statSync, statfsSync, truncateSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { createPodSandbox, removePodSandbox } from "../src/sandbox/pod-sandbox.ts";

const skip = process.getuid?.() === 0 ? false : "needs root";
const mebibyte = 2 ** 20;

describe("createPodSandbox(), of a pod's shared memory", { skip, timeout: 60_000 }, () => {
  it("has 64 MiB whatever the machine has, stays while the sandbox does, and goes with it", async () => {
    using folder = temporaryFolder();
    const name = "shm-test";
    const options = { runDir: folder.path, name, hostname: "pod", logger: silentLogger };
    try {
      const { sharedMemoryDir: directory = "" } = await createPodSandbox(options);
      const { bsize, blocks } = statfsSync(directory);
      assert.equal(bsize * blocks, 64 * mebibyte);
      assert.equal(statSync(directory).mode & 0o7777, 0o1777);
      const most = `${directory}/most`;
      writeFileSync(most, Buffer.alloc(63 * mebibyte));
      assert.throws(() => writeFileSync(`${directory}/more`, Buffer.alloc(2 * mebibyte)), {
        code: "ENOSPC",
      });
      truncateSync(most);
      // As a later run of the agent takes it over.
      const again = await createPodSandbox(options);
      assert.equal(again.sharedMemoryDir, directory);
      assert.ok(existsSync(most));
      await removePodSandbox(options);
      assert.ok(!existsSync(directory));
    } finally {
      await removePodSandbox(options);
    }
  });
});
