import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { PassThrough, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { eventually, temporaryFolder } from "@kip/testing";
import type { OciProcess } from "../bundle/oci-spec.ts";
import { runPaths } from "../run-paths.ts";
import { execProcess } from "./exec-process.ts";
import { NamedPipes, type ChildPipe } from "./named-pipes.ts";

const main: OciProcess = {
  terminal: false,
  user: { uid: 0, gid: 0, additionalGids: [] },
  args: ["true"],
  env: [],
  cwd: "/",
  capabilities: { bounding: [], effective: [], permitted: [] },
  noNewPrivileges: false,
  oomScoreAdj: 0,
  rlimits: [],
};

/** The shell that replaces crun would collect the exit code of a child that ends before it. crun does not. */
const afterParent = "tail -s 0.05 -f --pid=$0 /dev/null";

describe("execProcess()", () => {
  for (const tty of [false, true])
    it(`gives a process the container's oom_score_adj, ${tty ? "on" : "without"} a terminal`, async () => {
      using place = temporaryRuntime("cat /proc/self/oom_score_adj");
      const stdout = new PassThrough();
      const printed = text(stdout);
      const { signal } = new AbortController();
      const container = { ...main, oomScoreAdj: 940 };
      await execProcess("c", container, { tty, stdout }, signal, place.context);
      assert.equal((await printed).trim(), "940");
    });

  it("ends when it is aborted, though a process in the background never stops printing", async () => {
    using place = temporaryRuntime('yes & echo $! > "$PIDS"; exit 0');
    const stop = new AbortController();
    let printed = 0;
    const stdout = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        printed += chunk.length;
        if (printed > 1_000_000) stop.abort(new Error("enough"));
        done();
      },
    });
    await assert.rejects(
      execProcess("c", main, { tty: false, stdout }, stop.signal, place.context),
      { message: "enough" },
    );
  });

  it("starts no process for a client that leaves before the start", async () => {
    using place = temporaryRuntime('echo $$ > "$PIDS"; exec sleep 1000');
    const stop = new AbortController();
    class SlowPipes extends NamedPipes {
      override async fromChild(): Promise<ChildPipe> {
        const pipe = await super.fromChild();
        stop.abort(new Error("gone"));
        return pipe;
      }
    }
    const context = { ...place.context, pipes: new SlowPipes(place.context.paths.pipes) };
    const streams = { tty: false, stdout: new PassThrough() };
    await assert.rejects(execProcess("c", main, streams, stop.signal, context), {
      message: "gone",
    });
    assert.equal(existsSync(context.crun.env.PIDS), false);
  });

  it("does not wait for what a process leaves running where nothing else takes orphans", async () => {
    // Like crun: in the foreground it waits for all descendants, but not when detached. The process is not its child.
    const script = `
      for word; do case $word in --detach) detach=1;; --pid-file=*) file=\${word#*=};; esac; done
      sh -c '${afterParent}; sleep 1000 & echo $!; exit 3' $$ & echo $! >"$file"
      [ -n "$detach" ] || tail -f --pid=$(pgrep -n -x sleep) /dev/null`;
    using place = temporaryRuntime(script);
    const stdout = new PassThrough();
    const printed = text(stdout);
    const context = { ...place.context, leavesOrphans: true };
    const streams = { tty: false, stdout };
    const { exitCode } = await execProcess(
      "c",
      main,
      streams,
      new AbortController().signal,
      context,
    );
    assert.equal(exitCode, 3);
    process.kill(Number(await printed), "SIGKILL");
  });

  it("leaves no zombie of what a process leaves running where nothing else takes orphans", async () => {
    const script = `
      for word; do case $word in --pid-file=*) file=\${word#*=};; esac; done
      sh -c 'echo $$ $(sh -c "sleep 0.1 >/dev/null & echo \\$!"); exec sleep 1000' & echo $! >"$file"`;
    using place = temporaryRuntime(script);
    const stdout = new PassThrough();
    const context = { ...place.context, leavesOrphans: true };
    const streams = { tty: false, stdout };
    const running = execProcess("c", main, streams, new AbortController().signal, context);
    const [printed] = (await once(stdout, "data")) as [Buffer];
    const [own, orphan] = printed.toString().trim().split(" ").map(Number);
    await eventually(() => !existsSync(`/proc/${orphan}`), { limitMs: 10_000 }).finally(() =>
      process.kill(own ?? Number.NaN, "SIGKILL"),
    );
    assert.deepEqual(await running, { exitCode: 137 });
  });

  it("shows a signal, and that crun failed, where nothing else takes orphans", async () => {
    const detached = { leavesOrphans: true };
    const { signal } = new AbortController();
    const streams = { tty: false };
    const ownPid = `for word; do case $word in --pid-file=*) file=\${word#*=};; esac; done`;
    using killed = temporaryRuntime(
      `${ownPid}; sh -c '${afterParent}; kill -9 $$' $$ & echo $! >"$file"`,
    );
    const ended = { ...killed.context, ...detached };
    assert.deepEqual(await execProcess("c", main, streams, signal, ended), { exitCode: 137 });
    using failing = temporaryRuntime("exit 9");
    const failed = { ...failing.context, ...detached };
    await assert.rejects(execProcess("c", main, streams, signal, failed), { code: "EXEC_FAILED" });
  });

  it("passes a terminal on, and does not wait for what keeps it open, where nothing else takes orphans", async () => {
    // Like a detached crun with a socket for the terminal. The remaining process has the terminal open and ignores its hang-up.
    const script = `
      for word; do case $word in --console-socket=*) socket=\${word#*=};; --pid-file=*) file=\${word#*=};; esac; done
      exec /usr/bin/python3 -c '
import os, pty, socket, sys
pid, master = pty.fork()
if pid == 0:
    os.execv("/bin/sh", ["sh", "-c", "trap \\"\\" HUP; read line; stty size; sleep 1000 & echo \\"$line\\" $!; exit 5"])
import fcntl, struct, termios
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    socket.send_fds(one, [b"/dev/pts/0"], [master])
open(sys.argv[2], "w").write(str(pid))
' "$socket" "$file"`;
    using place = temporaryRuntime(script);
    const stdout = new PassThrough();
    const printed = text(stdout);
    const stdin = new PassThrough();
    stdin.write("typed\n");
    const context = { ...place.context, leavesOrphans: true };
    const { signal } = new AbortController();
    const streams = { tty: true, stdin, stdout };
    const { exitCode } = await execProcess("c", main, streams, signal, context);
    assert.equal(exitCode, 5);
    const [, left] = /^typed\r\n33 99\r\ntyped (\d+)\r\n$/.exec(await printed) ?? [];
    process.kill(Number(left), "SIGKILL"); // it runs
    assert.deepEqual(readdirSync(place.context.paths.execs), []);
  });

  it("says when the process has begun, before it ends", { timeout: 20_000 }, async () => {
    const script = `
      for word; do case $word in --pid-file=*) file=\${word#*=};; esac; done
      read line; echo $$ >"$file"; read line`;
    using place = temporaryRuntime(script);
    const begun = Promise.withResolvers<void>();
    const stdin = new PassThrough();
    let isAllowed = false;
    const onBegun = (): void =>
      isAllowed ? begun.resolve() : begun.reject(new Error("too early"));
    const context = { ...place.context, onBegun };
    const { signal } = new AbortController();
    const running = execProcess("c", main, { tty: false, stdin }, signal, context);
    await new Promise((resolve) => setTimeout(resolve, 200));
    isAllowed = true;
    stdin.write("begin\n");
    await begun.promise;
    stdin.write("end\n");
    assert.deepEqual(await running, { exitCode: 0 });
  });

  it("closes the pipes that it has opened when it cannot have another one", async () => {
    using place = temporaryRuntime("exit 0");
    const opened: ChildPipe[] = [];
    class LastPipe extends NamedPipes {
      override async fromChild(): Promise<ChildPipe> {
        if (opened.length > 0) throw new Error("no more pipes");
        const pipe = await super.fromChild();
        opened.push(pipe);
        return pipe;
      }
    }
    const context = { ...place.context, pipes: new LastPipe(place.context.paths.pipes) };
    const streams = { tty: false, stdout: new PassThrough(), stderr: new PassThrough() };
    await assert.rejects(execProcess("c", main, streams, new AbortController().signal, context), {
      message: "no more pipes",
    });
    assert.deepEqual(
      opened.map(({ socket }) => socket.destroyed),
      [true],
    );
  });

  it("fails, and leaves no rejection unhandled, when crun cannot be started", async () => {
    using place = temporaryRuntime("exit 0");
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const context = { ...place.context, crun: { path: "/nonexistent/crun", env: {} } };
      const streams = { tty: false, stdout: new PassThrough(), stderr: new PassThrough() };
      const { signal } = new AbortController();
      await assert.rejects(execProcess("c", main, streams, signal, context), {
        code: "EXEC_FAILED",
      });
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("unhandledRejection", note);
    }
    assert.deepEqual(unhandled, []);
  });
});

/** A runtime's folders with a shell script in place of crun. */
function temporaryRuntime(script: string) {
  const temporary = temporaryFolder();
  const folder = temporary.path;
  const paths = runPaths(folder);
  mkdirSync(paths.execs);
  const crun = path.join(folder, "crun");
  writeFileSync(crun, `#!/bin/sh\n${script}\n`);
  chmodSync(crun, 0o755);
  const env = { PATH: "/usr/bin:/bin", PIDS: path.join(folder, "pids") };
  const context = {
    crun: { path: crun, env },
    paths,
    pipes: new NamedPipes(paths.pipes),
    name: "1",
    leavesOrphans: false,
  };
  return { context, [Symbol.dispose]: () => temporary.remove() };
}
