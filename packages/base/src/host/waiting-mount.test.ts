import assert from "node:assert/strict";
import { test } from "node:test";
import { waitingMount } from "./waiting-mount.ts";

test("a mount that fails says so, the one that waited and the ones after it", async () => {
  const mount = await waitingMount();
  // The type and target do not exist, and most users have no right to mount.
  const args = ["-t", "no-such-type", "it's none", "/no/such/place"];
  for (let count = 0; count < 2; count++)
    await assert.rejects(mount(args, { cwd: "/tmp" }), { code: "COMMAND_FAILED" });
});
