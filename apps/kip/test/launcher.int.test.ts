import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { allocatorSettings, nodeFlags } from "@kip/kip/process-settings";

const program = path.join(import.meta.dirname, "../bin/kip");

/** The Node flags and the C library settings of the command's process. */
async function start(args: readonly string[], environment: NodeJS.ProcessEnv = {}) {
  const names = Object.keys(allocatorSettings);
  const probe = `process.on("exit", () => console.log("\\n" + JSON.stringify({
    flags: process.execArgv,
    settings: Object.fromEntries(${JSON.stringify(names)}.map((name) => [name, process.env[name]])),
  })));`;
  const { stdout } = await runCommand(program, args, {
    env: {
      ...process.env,
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(probe)}`,
      ...environment,
    },
  });
  return JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "") as unknown; // the probe's own output
}

describe("bin/kip", () => {
  it("starts the provider with the settings that keep its memory small", async () => {
    const expected = { flags: nodeFlags, settings: allocatorSettings };
    assert.deepEqual(await start(["--help"]), expected);
  });

  it("leaves the C library's settings of the environment as they are", async () => {
    const own = { MALLOC_ARENA_MAX: "3" };
    const settings = { ...allocatorSettings, ...own };
    assert.deepEqual(await start(["--help"], own), { flags: nodeFlags, settings });
  });

  it("starts other commands, and what they start, as Node and the C library are by default", async () => {
    assert.deepEqual(await start(["version"]), { flags: [], settings: {} });
  });
});
