import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { writePodFiles } from "./pod-files.ts";
import { writeFilesVolume } from "./files-volume.ts";
import { checkHostPath } from "./host-path.ts";
import { pinPath } from "./safe-path.ts";

for (const umask of [0o022, 0o027, 0o077]) {
  describe(`modes of what containers see, with umask ${umask.toString(8)}`, () => {
    let folder = "";
    let before = 0;
    beforeEach(() => {
      folder = fs.mkdtempSync(path.join(os.tmpdir(), "kip-modes-"));
      before = process.umask(umask);
    });
    afterEach(() => {
      process.umask(before);
      fs.rmSync(folder, { recursive: true });
    });
    const mode = (...names: readonly string[]): string =>
      (fs.statSync(path.join(folder, ...names)).mode & 0o7777).toString(8);

    for (const [kind, wanted] of [
      ["an emptyDir", 0o777],
      ["an emptyDir with fsGroup", 0o2777],
      ["a volume of a group's", 0o2775],
      ["a private volume", 0o700],
    ] as const) {
      it(`pinPath() makes directories with the mode of ${kind}`, () => {
        fs.chmodSync(folder, wanted);
        pinPath(folder, "sub/deep")[Symbol.dispose]();
        assert.equal(mode("sub"), wanted.toString(8));
        assert.equal(mode("sub", "deep"), wanted.toString(8));
      });
    }

    it("pinPath() keeps a directory that is there, and its setgid for what it makes below", () => {
      fs.chmodSync(folder, 0o777);
      fs.mkdirSync(path.join(folder, "own"));
      fs.chmodSync(path.join(folder, "own"), 0o2750);
      pinPath(folder, "own/new")[Symbol.dispose]();
      assert.equal(mode("own"), "2750");
      assert.equal(mode("own", "new"), "2777");
    });

    it("writeFilesVolume() lets all users in", () => {
      const file = { path: "sub/deep/file", data: "", mode: 0o644 };
      writeFilesVolume(path.join(folder, "volume"), [file]);
      for (const place of ["", "..data", "..data/sub", "..data/sub/deep"])
        assert.equal(mode("volume", place), "755", place);
      assert.equal(mode("volume", "sub/deep/file"), "644");
    });

    it("checkHostPath() makes what the kubelet makes", async () => {
      await checkHostPath(path.join(folder, "any/deep"), "");
      await checkHostPath(path.join(folder, "directory/deep"), "DirectoryOrCreate");
      await checkHostPath(path.join(folder, "any/file"), "FileOrCreate");
      for (const name of ["any", "directory"]) assert.equal(mode(name, "deep"), "755");
      assert.equal(mode("any", "file"), "644");
    });

    it("writePodFiles() lets all users read", () => {
      const pod = { etcHosts: "", hostname: "web", resolvConf: "" };
      writePodFiles(path.join(folder, "pod"), pod as unknown as DesiredPod); // the fields that are read
      for (const name of ["hosts", "hostname", "resolv.conf"])
        assert.equal(mode("pod", name), "644");
    });
  });
}
