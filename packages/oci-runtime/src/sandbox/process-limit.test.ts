import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { limitProcesses, processLimit } from "./process-limit.ts";

describe("processLimit()", () => {
  it("leaves a fifth of the processes that the machine takes to others than the pod", () => {
    using folder = temporaryFolder();
    const write = (name: string, value: number): void =>
      fs.writeFileSync(path.join(folder.path, name), `${value}\n`);
    write("threads-max", 3500);
    write("pid_max", 32_768);
    assert.equal(processLimit(folder.path), 2800);
    write("threads-max", 100_000);
    assert.equal(processLimit(folder.path), 26_214);
  });
});

describe("limitProcesses()", () => {
  it("sets the limit of a cgroup, and makes no file where there is none", () => {
    using folder = temporaryFolder();
    fs.mkdirSync(path.join(folder.path, "pod"));
    assert.equal(limitProcesses("/pod", 10, folder.path), false);
    assert.deepEqual(fs.readdirSync(path.join(folder.path, "pod")), []);
    fs.writeFileSync(path.join(folder.path, "pod/pids.max"), "");
    assert.equal(limitProcesses("/pod", 10, folder.path), true);
    assert.equal(fs.readFileSync(path.join(folder.path, "pod/pids.max"), "utf8"), "10");
  });
});
