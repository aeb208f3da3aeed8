import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { followTestRun, openTestRun } from "./test-run.ts";

describe("followTestRun()", () => {
  it("reports the end of a run that is killed", { timeout: 60_000 }, async () => {
    using folder = temporaryFolder();
    const module = path.join(import.meta.dirname, "test-run.ts");
    const script = `const { openTestRun } = await import(${JSON.stringify(module)});
await openTestRun(${JSON.stringify(folder.path)});
console.log("open");
setInterval(() => {}, 1000);`;
    const run = spawn(process.execPath, ["--input-type=module", "-e", script]);
    await once(run.stdout, "data");
    const ended = Promise.withResolvers<void>();
    followTestRun(folder.path, ended.resolve);
    run.kill("SIGKILL");
    await ended.promise;
    const late = Promise.withResolvers<void>();
    followTestRun(folder.path, late.resolve);
    await late.promise;
  });

  it("reports the end of a run that is disposed of", async () => {
    using folder = temporaryFolder();
    const run = await openTestRun(folder.path);
    const ended = Promise.withResolvers<void>();
    followTestRun(folder.path, ended.resolve);
    await run[Symbol.asyncDispose]();
    await ended.promise;
  });
});
