import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, stat } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { machineRequest } from "./support/machine-request.ts";
import { writeTalkingImage } from "./support/talking-image.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptmask", 9);
after(() => test.remove());

describe("a local cloud whose process has a strict umask", { timeout: 240_000 }, () => {
  for (const mask of ["027", "077"]) {
    it(`attaches and detaches disks under ${mask}`, async () => {
      await using cloud = await test.open();
      await act(mask, { launch: machineRequest({ token: mask }), attachVolume: `disk-${mask}` });
      const [machine] = await cloud.list();
      assert.equal(machine?.state, "running");
      const folder = path.join(test.options.stateDir, "machines", machine.id);
      assert.equal((await stat(path.join(folder, "volumes"))).mode & 0o7777, 0o711);
      await cloud.terminate(machine.id);
    });

    it(`makes templates under ${mask}, and machines of them`, async () => {
      await writeTalkingImage(test.options.imagesDir, `good-${mask}`, "good");
      const image = `good-${mask}`;
      await act(mask, { prepareTemplate: image, launch: machineRequest({ token: image, image }) });
      await using cloud = await test.open();
      const [machine] = await cloud.list();
      assert.equal(machine?.startedFrom, "template");
      const [key = ""] = (await readdir(path.join(test.options.stateDir, "templates"))).filter(
        (name) => !name.startsWith("."),
      );
      const folder = path.join(test.options.stateDir, "templates", key);
      assert.equal((await stat(folder)).mode & 0o7777, 0o711);
      await cloud.terminate(machine.id);
    });
  }
});

/** Does something to the cloud in a process with the given umask. */
async function act(mask: string, what: Readonly<Record<string, unknown>>): Promise<void> {
  const script = path.join(import.meta.dirname, "support/act.ts");
  const acts = JSON.stringify({ options: test.options, ...what });
  const command = ["-c", `umask ${mask} && exec "$@"`, "sh", process.execPath, script, acts];
  const child = spawn("sh", command, { stdio: ["ignore", "ignore", "inherit"] });
  const [code] = await once(child, "exit");
  assert.equal(code, 0);
}
