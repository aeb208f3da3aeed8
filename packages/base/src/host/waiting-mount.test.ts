import assert from "node:assert/strict";
import { test } from "node:test";
import { waitingMount } from "./waiting-mount.ts";

test("a mount that fails says so, the one that waited and the ones after it", async () => {
  const mount = await waitingMount();
  // No such type, target and, for most who run this, no right to it.
  const args = ["-t", "no-such-type", "it's none", "/no/such/place"];
  for (let count = 0; count < 2; count++)
    await assert.rejects(mount(args, { cwd: "/tmp" }), { code: "COMMAND_FAILED" });
});
