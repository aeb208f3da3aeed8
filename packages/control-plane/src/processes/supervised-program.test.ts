import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { SupervisedProgram, type ProgramEnd } from "./supervised-program.ts";

async function withProgram(
  script: string,
  action: (program: SupervisedProgram, folder: string) => Promise<void>,
): Promise<void> {
  using folder = temporaryFolder();
  const file = path.join(folder.path, "program");
  const below = (name: string): string => path.join(folder.path, name);
  for (const name of ["log", "run"]) mkdirSync(below(name));
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const program = new SupervisedProgram(
    {
      name: "etcd",
      file,
      args: [],
      env: { PATH: process.env["PATH"] },
      directory: folder.path,
      logFile: below("log/etcd.log"),
      identityFile: below("run/etcd.json"),
      stopGraceMs: 5000,
      logLimitBytes: 10_000,
    },
    systemClock,
  );
  try {
    await action(program, folder.path);
  } finally {
    await program.stop();
  }
}

describe("SupervisedProgram", () => {
  it("reports the last lines of a program that ends", async () => {
    await withProgram("echo one; echo two >&2; exit 3", async (program) => {
      const end = await program.start();
      assert.equal(end.reason, "etcd ended with exit code 3: two");
    });
  });

  it("limits the log of a program that writes without end", async () => {
    await withProgram("seq 1 100000", async (program, folder) => {
      const end = await program.start();
      assert.match(end.reason, /100000$/);
      for (const name of ["etcd.log", "etcd.log.1"])
        assert.ok(statSync(path.join(folder, "log", name)).size <= 64 * 1024, name);
    });
  });

  it("starts a program again when its folders of logs and records are gone", async () => {
    await withProgram("exit 1", async (program, folder) => {
      void program.start();
      const ends: ProgramEnd[] = [];
      const second = Promise.withResolvers<void>();
      program.supervise((end) => {
        ends.push(end);
        if (ends.length === 1)
          for (const name of ["log", "run"]) rmSync(path.join(folder, name), { recursive: true });
        if (ends.length === 2) second.resolve();
      });
      await second.promise;
      assert.ok(!existsSync(path.join(folder, "log")));
      assert.match(ends[1]?.reason ?? "", /exit code 1/);
    });
  });

  it("reports a program that cannot be started, and does not end its own, when no descriptor is left", () => {
    const script = `
      const { SupervisedProgram } = await import(${JSON.stringify(path.join(import.meta.dirname, "supervised-program.ts"))});
      const { systemClock } = await import("@kip/base");
      const { openSync } = await import("node:fs");
      const spec = { name: "etcd", file: "true", args: [], env: process.env, logFile: "/dev/null", logLimitBytes: 1000 };
      const program = new SupervisedProgram(spec, systemClock);
      const failing = Promise.withResolvers();
      try { for (;;) openSync("/dev/null", "r"); } catch {}
      void program.start();
      program.supervise(({ reason }) => failing.resolve(reason));
      process.stdout.write(await failing.promise);
      await program.stop();`;
    const limited = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"';
    const { stdout, stderr } = spawnSync("sh", ["-c", limited, process.execPath, script], {
      cwd: import.meta.dirname,
    });
    assert.match(stdout.toString(), /^etcd could not be started \(.*EMFILE\)$/, stderr.toString());
  });

  it("reports a program that ends soon after its start three times in a row", async () => {
    await withProgram("echo no; exit 1", async (program) => {
      void program.start();
      let ends = 0;
      program.supervise(() => ends++);
      const { how, output } = await program.failing;
      assert.deepEqual({ how, output, ends }, { how: "exit code 1", output: "no\n", ends: 3 });
    });
  });
});
