import assert from "node:assert/strict";
import { it } from "node:test";
import { parseOptions } from "@kip/base";
import { commandOptions } from "./command-options.ts";
import { nodeTimes } from "./node-settings.ts";

it("nodeTimes() takes 0 as no limit of idle streams, and refuses it where there must be a time", () => {
  const words = { certificate: "", clientCa: "", nodeIp: "", systems: "" };
  const table = commandOptions({ ...words, logFormat: "json", metrics: "off" });
  const times = (...args: readonly string[]) => nodeTimes(parseOptions(table, args, {}));
  assert.equal(times().streams.streamIdleTimeoutMs, 4 * 3_600_000);
  assert.equal(times("--stream-idle-timeout=0").streams.streamIdleTimeoutMs, Infinity);
  for (const flag of ["--stream-creation-timeout", "--full-resync-period"])
    assert.throws(() => times(`${flag}=0s`), {
      code: "OPTION_INVALID",
      message: `Cannot use ${flag} 0: a time above 0 is expected`,
    });
});
