import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { containerPaths, runPaths, type RunPaths } from "../run-paths.ts";
import { writeRecord } from "./container-record.ts";
import { ExitWatcher } from "./exit-watcher.ts";

function makeContainer(paths: RunPaths, id: string): void {
  const files = containerPaths(paths, id);
  fs.mkdirSync(files.bundle, { recursive: true });
  fs.mkdirSync(paths.exits, { recursive: true });
  writeRecord(files, {
    id,
    labels: {},
    logDirectory: "/",
    maxLogFiles: 2,
    maxLogFileBytes: 1,
    cgroup: "/none",
    tty: false,
    stdin: "closed",
    createdAtMs: 0,
  });
}

/** Writes to two files by turns, which fills the kernel's queue of events of a process that watches both and reads none. */
const flood = `
exec 3>>"$1/one" 4>>"$1/other"
i=0
while [ $i -le $2 ]; do echo >&3; echo >&4; i=$((i + 2)); done
echo 3 >"$3.new"; mv "$3.new" "$3"`;

describe("ExitWatcher", { timeout: 30_000 }, () => {
  it("reports an end whose event the kernel has dropped, once", async () => {
    using folder = temporaryFolder();
    const paths = runPaths(folder.path);
    makeContainer(paths, "a");
    const logs = ["one", "other"].map((name) => path.join(folder.path, name));
    for (const log of logs) fs.writeFileSync(log, "");
    const watches = logs.map((log) => fs.watch(log).unref());
    using watcher = await ExitWatcher.open(paths, silentLogger, 20);
    const codes: number[] = [];
    const seen = Promise.withResolvers<void>();
    watcher.subscribe(({ exitCode }) => {
      codes.push(exitCode);
      seen.resolve();
    });
    const most = fs.readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8").trim();
    // Synchronously, so that no event is read meanwhile.
    spawnSync("sh", ["-c", flood, "sh", folder.path, most, path.join(paths.exits, "a")]);
    await Promise.race([seen.promise, setTimeout(10_000)]);
    await setTimeout(60);
    assert.deepEqual(codes, [3]);
    for (const watch of watches) watch.close();
  });
});
