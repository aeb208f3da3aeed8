// Needs conmon, at /usr/bin/conmon or at KIP_CONMON. A shell replaces crun and the container.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, watch, writeFileSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { pause, runCommand, silentLogger, systemClock } from "@kip/base";
import { eventually, temporaryFolder } from "@kip/testing";
import { listLogFiles, logUsageBytes } from "../src/logs/log-files.ts";
import { requestNextLog } from "../src/control-pipe.ts";
import { defaultLogLimits, largestFileBytes, type LogLimits } from "../src/logs/log-limits.ts";
import { LogRotation } from "../src/logs/log-rotation.ts";
import { readLog } from "../src/logs/read-log.ts";
import { containerPaths, runPaths } from "../src/run-paths.ts";
import { Monitor } from "../src/spawn/conmon.ts";

const conmon = process.env["KIP_CONMON"] ?? "/usr/bin/conmon";
const skip = existsSync(conmon) ? false : `needs ${conmon}`;
const never = new AbortController().signal;
const small: LogLimits = { maxFileBytes: 64 * 1024, maxFiles: 5 };

/**
 * The program that conmon calls to create a container. It starts a shell with the bundle's script, and reports its process ID.
 */
const runtime = `#!/bin/bash
while [ $# -gt 0 ]; do
  case $1 in --pid-file) pid=$2;; --bundle) bundle=$2;; esac
  shift
done
setsid bash "$bundle/script" </dev/null &
echo -n $! >"$pid"
`;

/** A shell under conmon, and its log. */
async function startShell(folder: string, script: string, limits: LogLimits = small) {
  const paths = runPaths(folder);
  const files = containerPaths(paths, "shell");
  const crun = path.join(folder, "runtime");
  for (const made of [paths.exits, files.bundle]) mkdirSync(made, { recursive: true });
  writeFileSync(crun, runtime, { mode: 0o755 });
  writeFileSync(path.join(files.bundle, "script"), script);
  const logDirectory = path.join(folder, "log");
  mkdirSync(logDirectory);
  const environment = { path: crun, env: { PATH: "/usr/bin:/bin" } };
  const how = { conmon, crun: environment, paths, monitorCgroup: undefined };
  const ended = hasEnded(files.exit);
  const launch = { id: "shell", files, logDirectory, limits, tty: false } as const;
  const monitor = await Monitor.start(
    { ...launch, stdin: "closed" },
    { ...how, logger: silentLogger, clock: systemClock },
  );
  await monitor.createContainer();
  const rotate = () =>
    new LogRotation(logDirectory, {
      limits,
      requestNext: async () => await requestNextLog(files.control),
      logger: silentLogger,
      clock: systemClock,
    });
  return { logDirectory, ended, rotate };
}

async function hasEnded(exit: string): Promise<void> {
  const stop = new AbortController();
  const watcher = watch(path.dirname(exit), { signal: stop.signal });
  while (!existsSync(exit)) await once(watcher, "change");
  stop.abort();
}

describe("LogRotation, of what conmon writes", { skip, timeout: 120_000 }, () => {
  it("loses and doubles no line under a reader, with an agent that ends and begins again", async () => {
    using folder = temporaryFolder();
    const pipe = path.join(folder.path, "pipe");
    await runCommand("mkfifo", [pipe]);
    // A block is smaller than a file. The next one is written when this one has been read.
    const script = `exec 3<>${pipe}
      for block in $(seq 1 40); do
        for line in $(seq 1 400); do echo "line $block.$line of a block"; done
        echo -n "and no "; sleep 0.01; echo "line end yet" >&2; echo "end $block"; read -u 3
      done`;
    const limits = { maxFileBytes: 32 * 1024, maxFiles: 2 };
    const { logDirectory, ended, rotate } = await startShell(folder.path, script, limits);
    const go = createWriteStream(pipe);
    let rotation = rotate();
    let shown = "";
    let block = 1;
    for await (const chunk of readLog(logDirectory, { follow: true }, ended, never)) {
      shown += String(chunk);
      if (!shown.includes(`end ${block}\n`)) continue;
      assert.ok((await listLogFiles(logDirectory)).length <= limits.maxFiles + 2);
      if (block++ % 7 === 0) {
        await rotation[Symbol.asyncDispose]();
        rotation = rotate();
      }
      go.write("\n");
    }
    go.end();
    await rotation[Symbol.asyncDispose]();
    const blocks = Array.from({ length: 40 }, (_, number) => {
      const lines = Array.from(
        { length: 400 },
        (_line, line) => `line ${number + 1}.${line + 1} of a block\n`,
      );
      return `${lines.join("")}and no end ${number + 1}\n`;
    });
    assert.equal(shown.replaceAll("line end yet\n", ""), blocks.join(""));
    assert.equal(shown.split("line end yet\n").length - 1, 40);
    assert.ok(((await listLogFiles(logDirectory)).at(-1)?.number ?? 0) > 10);
  });

  it("bounds the disk that a log takes, without an agent too", async () => {
    using folder = temporaryFolder();
    const script = `head -c 4000000 /dev/zero | tr '\\0' x | fold -w 100`;
    const { logDirectory, ended } = await startShell(folder.path, script);
    await ended;
    assert.ok((await logUsageBytes(logDirectory)) <= 1.1 * largestFileBytes(small));
    using kept = temporaryFolder();
    const second = await startShell(kept.path, script);
    const rotation = second.rotate();
    await second.ended;
    const limit = 2.1 * largestFileBytes(small);
    await eventually(async () => (await logUsageBytes(second.logDirectory)) <= limit);
    await rotation[Symbol.asyncDispose]();
    const tail = await text(readLog(second.logDirectory, { tailLines: 1 }, ended, never));
    assert.equal(tail.trimEnd(), "x".repeat(100));
  });

  it("keeps a tail without a gap of what is written faster than an agent looks", async () => {
    using folder = temporaryFolder();
    const lines = 4_000_000;
    const { logDirectory, ended, rotate } = await startShell(
      folder.path,
      `exec seq -f 'line %.0f of a container' ${lines}`,
      defaultLogLimits,
    );
    const rotation = rotate();
    // An agent that is busy with other work most of the time.
    const over = new AbortController();
    void ended.then(() => over.abort());
    while (await pause(10, systemClock, over.signal))
      for (const until = Date.now() + 150; Date.now() < until;);
    await rotation[Symbol.asyncDispose]();
    const kept = await text(readLog(logDirectory, { tailBytes: 1e12 }, ended, never));
    const numbers = kept
      .trimEnd()
      .split("\n")
      .map((line) => Number(line.split(" ")[1]));
    const gaps = numbers.filter(
      (number, index) => index > 0 && number !== (numbers[index - 1] ?? 0) + 1,
    );
    assert.deepEqual(gaps, []);
    assert.equal(numbers.at(-1), lines);
    const { maxFileBytes, maxFiles } = defaultLogLimits;
    const bytes = await logUsageBytes(logDirectory);
    assert.ok(bytes > (maxFiles - 1) * maxFileBytes, `${bytes} bytes`);
  });
});
