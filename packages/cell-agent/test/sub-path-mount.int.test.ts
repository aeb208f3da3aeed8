// Really mounts: needs root.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { mountCommand, runCommand } from "@kip/base";
import { pinPath } from "../src/volumes/safe-path.ts";

const skip = process.getuid?.() === 0 ? false : "needs root";

for (const [program, hasBusybox] of [
  ["busybox", true],
  ["util-linux", false],
] as const) {
  describe(`mounting a pinned path by the mount of ${program}`, { skip, timeout: 60_000 }, () => {
    let folder = "";
    const place = (name: string): string => path.join(folder, name);
    beforeEach(() => {
      folder = fs.mkdtempSync(path.join(os.tmpdir(), "kip-pinned-"));
      for (const name of ["volume/dir", "secret", "target"])
        fs.mkdirSync(place(name), { recursive: true });
      fs.writeFileSync(place("secret/theirs"), "");
    });
    afterEach(async () => {
      await runCommand("umount", [place("target")]).catch(() => {}); // if nothing was mounted
      fs.rmSync(folder, { recursive: true });
    });
    const bind = async (source: string): Promise<void> => {
      const [file = "", ...args] = mountCommand(
        ["-o", "bind", source, place("target")],
        hasBusybox,
      );
      await runCommand(file, args);
    };

    it("shows what was pinned when a link has its name by now", async () => {
      fs.writeFileSync(place("volume/dir/mine"), "");
      using pinned = pinPath(place("volume"), "dir");
      fs.renameSync(place("volume/dir"), place("volume/moved"));
      fs.symlinkSync("../secret", place("volume/dir"));
      await bind(pinned.path);
      assert.deepEqual(fs.readdirSync(place("target")), ["mine"]);
    });

    it("CVE-2021-25741: does not look up the kernel's text for what was pinned, which a pod can choose", async () => {
      using pinned = pinPath(place("volume"), "dir");
      fs.rmdirSync(place("volume/dir"));
      fs.symlinkSync("../secret", place("volume/dir (deleted)"));
      // The kernel does not show a removed directory.
      await assert.rejects(bind(pinned.path), { code: "COMMAND_FAILED" });
      assert.deepEqual(fs.readdirSync(place("target")), []);
    });
  });
}
