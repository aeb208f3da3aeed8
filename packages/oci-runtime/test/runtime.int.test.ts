// Runs real containers. Needs root on a machine with cgroup v2, crun, conmon and a static busybox, such as a cell.
// e2e/runtime-in-cell.test.ts runs it there.
import assert from "node:assert/strict";
import { accessSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import {
  AsyncQueue,
  runCommand,
  silentLogger,
  systemClock,
  type ProcessStreams,
  type TerminalSize,
} from "@kip/base";
import { eventually } from "@kip/testing";
import { RuntimeError } from "../src/errors.ts";
import {
  createPodSandbox,
  createRuntime,
  removePodSandbox,
  type ContainerExit,
  type ContainerRuntime,
  type ContainerSpec,
  type PodSandbox,
} from "../src/index.ts";

const busybox = ["/bin/busybox", "/usr/bin/busybox"].find((file) => existsSync(file)) ?? "";
const missing = reasonToSkip();
const skip = missing && `${missing}; e2e/runtime-in-cell.test.ts runs it on a cell`;
const limit = { timeout: 240_000 };
const never = new AbortController().signal;
const timings: Record<string, number> = {};

let home = "";
let rootfs = "";
let runtime: ContainerRuntime;
let sandbox: PodSandbox;

function reasonToSkip(): string | false {
  if (process.getuid?.() !== 0) return "needs root";
  for (const file of ["/usr/bin/crun", "/usr/bin/conmon", "/usr/bin/socat"])
    if (!existsSync(file)) return `needs ${file}`;
  if (busybox === "") return "needs busybox-static";
  try {
    accessSync("/sys/fs/cgroup/cgroup.controllers");
  } catch {
    return "needs cgroup v2 at /sys/fs/cgroup (crun refuses hybrid cgroups)";
  }
  return false;
}

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const result = await work();
  timings[name] = Math.round(performance.now() - start);
  return result;
}

function spec(id: string, command: string, more: Partial<ContainerSpec> = {}): ContainerSpec {
  return {
    id,
    sandbox,
    rootfs,
    args: ["sh", "-c", command],
    env: ["GREETING=hello"],
    cwd: "/",
    user: { uid: 0, gid: 0, additionalGids: [] },
    tty: false,
    stdin: "closed",
    mounts: [],
    logDirectory: path.join(home, "logs", "of", id),
    ...more,
  };
}

async function newRuntime(): Promise<ContainerRuntime> {
  return await createRuntime({
    runDir: path.join(home, "run"),
    logger: silentLogger,
    clock: systemClock,
  });
}

async function nextExit(id: string, from: ContainerRuntime = runtime): Promise<ContainerExit> {
  return await new Promise((resolve) => {
    const stop = from.onExit((exit) => {
      if (exit.id !== id) return;
      stop();
      resolve(exit);
    });
  });
}

/** Creates and starts a container, and waits for its end. */
async function runToEnd(wanted: ContainerSpec): Promise<ContainerExit> {
  const exit = nextExit(wanted.id);
  await runtime.create(wanted);
  await runtime.start(wanted.id);
  return await exit;
}

async function logOf(id: string, from: ContainerRuntime = runtime): Promise<string> {
  return await text(from.logs(id, path.join(home, "logs", "of", id), {}, never));
}

interface Client extends ProcessStreams {
  readonly out: Promise<string>;
  readonly err: Promise<string>;
}

function client(input?: Readable): Client {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  return {
    stdout,
    stderr,
    tty: false,
    out: text(stdout),
    err: text(stderr),
    ...(input && { stdin: input }),
  };
}

async function until(stream: Readable, wanted: RegExp): Promise<string> {
  let seen = "";
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    seen += String(chunk);
    if (wanted.test(seen)) return seen;
  }
  throw new Error(`ended without ${String(wanted)}: ${seen}`);
}

describe("createRuntime()", { skip }, () => {
  before(async () => {
    home = await mkdtemp("/tmp/oci-runtime-");
    rootfs = path.join(home, "rootfs");
    for (const folder of ["bin", "proc", "sys", "dev", "etc", "tmp"])
      await mkdir(path.join(rootfs, folder), { recursive: true });
    await chmod(path.join(rootfs, "tmp"), 0o1777);
    await copyFile(busybox, path.join(rootfs, "bin/busybox"));
    const { stdout } = await runCommand(busybox, ["--list"]);
    for (const name of stdout.trim().split("\n"))
      if (name !== "busybox") await symlink("busybox", path.join(rootfs, "bin", name));
    runtime = await timed("createRuntime", newRuntime);
    sandbox = await timed(
      "createPodSandbox (host network)",
      async () =>
        await createPodSandbox({
          runDir: path.join(home, "run"),
          name: "t-host",
          hostname: "unused",
          logger: silentLogger,
        }),
    );
  });

  after(async () => {
    for (const state of await runtime.list()) await runtime.remove(state.id);
    await removePodSandbox({
      runDir: path.join(home, "run"),
      name: "t-host",
      logger: silentLogger,
    });
    await runtime[Symbol.asyncDispose]();
    // Stays mounted for the runtime's next run.
    await runCommand("umount", [path.join(home, "run", "programs", "crun")]);
    await rm(home, { recursive: true });
    console.log(JSON.stringify({ timingsMs: timings }));
  });

  it("writes a container's output to its log, and reports its exit code", limit, async () => {
    const wanted = spec("hello", 'echo "$GREETING"; echo oops >&2; printf rest; exit 3');
    const exit = nextExit("hello");
    await timed("create", async () => await runtime.create(wanted));
    assert.equal((await runtime.list())[0]?.status, "created");
    await timed("start", async () => await runtime.start("hello"));
    const { exitCode, oomKilled, lost } = await timed(
      "start to exit noticed",
      async () => await exit,
    );
    assert.deepEqual({ exitCode, oomKilled, lost }, { exitCode: 3, oomKilled: false, lost: false });
    assert.match(await logOf("hello"), /^(?=[^]*hello\n)(?=[^]*oops\n)(?=[^]*rest)[^]{15}$/);
    const [state] = await runtime.list();
    assert.equal(state?.status, "exited");
    assert.equal(state.exit?.exitCode, 3);
    await timed("remove", async () => await runtime.remove("hello"));
    assert.deepEqual(await runtime.list(), []);
    await runtime.remove("hello");
  });

  it("has a monitor that waits take the container of its ID", limit, async () => {
    const logs = path.join(home, "logs");
    await runtime.prepare(logs);
    const id = runtime.takePreparedId() ?? "";
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.equal(runtime.takePreparedId(), undefined);
    assert.equal(
      (await timed("prepared", async () => await runToEnd(spec(id, "echo a; exit 4")))).exitCode,
      4,
    );
    assert.equal(await logOf(id), "a\n");
    assert.deepEqual(readdirSync(path.join(logs, "of", id)).sort(), [
      "1.log",
      "current.log",
      "current.log.tmp",
      "next.log",
    ]);
    await runtime.remove(id);
  });

  it("replaces a monitor that waits and does not fit", limit, async () => {
    await using other = await createRuntime({
      runDir: path.join(home, "other"),
      logger: silentLogger,
      clock: systemClock,
    });
    await other.prepare(path.join(home, "logs"));
    const id = other.takePreparedId() ?? "";
    await other.create(spec(id, "cat", { stdin: "open" }));
    await other.start(id);
    await other.remove(id);
    assert.deepEqual(await other.list(), []);
    await other.prepare(path.join(home, "logs"));
    await other[Symbol.asyncDispose]();
    assert.deepEqual(readdirSync(path.join(home, "other", "containers")), []);
    await runCommand("umount", [path.join(home, "other", "programs", "crun")]);
  });

  it(
    "fails to create a container whose command does not exist, and leaves nothing",
    limit,
    async () => {
      await assert.rejects(
        runtime.create(spec("nothing", "", { args: ["/no/such/program"] })),
        (error) =>
          RuntimeError.is(error, "CONTAINER_CREATE_FAILED") &&
          /no\/such\/program/.test(String(error)),
      );
      assert.deepEqual(await runtime.list(), []);
      await runtime.create(spec("nothing", "exit 0"));
      await runtime.remove("nothing");
    },
  );

  it("ends a container with 128 and the signal's number", limit, async () => {
    const exit = nextExit("killed");
    await runtime.create(spec("killed", 'trap "exit 7" TERM; while :; do sleep 0.1; done'));
    await runtime.start("killed");
    await until(runtime.logs("killed", path.join(home, "logs/killed.log"), {}, never), /^$/).catch(
      () => {},
    );
    await runtime.kill("killed", "SIGKILL");
    assert.equal((await exit).exitCode, 137);
    await runtime.kill("killed", "SIGTERM");
    await runtime.remove("killed");
  });

  it("marks a container that is killed as a whole over its memory limit", limit, async () => {
    const exit = await runToEnd(
      spec("greedy", "sleep 1000 & head -c 200m /dev/zero | tail", {
        resources: {
          memoryBytesLimit: 32 * 1024 * 1024,
          cpuMilliLimit: 1500,
          cpuMilliRequest: 100,
        },
      }),
    );
    assert.equal(exit.oomKilled, true);
    assert.equal(exit.exitCode, 137);
    await runtime.remove("greedy");
  });

  describe("exec()", () => {
    before(async () => {
      await runtime.create(
        spec("busy", "while :; do sleep 1; done", { env: ["GREETING=hello", "PATH=/bin"] }),
      );
      await runtime.start("busy");
    });
    after(async () => {
      await timed("remove of a running container", async () => await runtime.remove("busy"));
    });

    it("hands output, environment and exit code through", limit, async () => {
      const streams = client();
      const command = ["sh", "-c", 'echo "$GREETING $MORE"; echo bad > /dev/stderr; exit 3'];
      const result = await timed(
        "exec",
        async () => await runtime.exec("busy", { command, env: ["MORE=world"] }, streams, never),
      );
      assert.equal(result.exitCode, 3);
      assert.equal(await streams.out, "hello world\n");
      assert.equal(await streams.err, "bad\n");
    });

    it("hands 10 MB of standard input through whole", limit, async () => {
      const block = Buffer.alloc(1024 * 1024, "0123456789abcde\n");
      const streams = client(Readable.from(Array.from({ length: 10 }, () => block)));
      const result = await timed(
        "exec with 10 MiB in and out",
        async () => await runtime.exec("busy", { command: ["cat"] }, streams, never),
      );
      assert.equal(result.exitCode, 0);
      const out = await streams.out;
      assert.equal(out.length, 10 * block.length);
      assert.equal(out, block.toString().repeat(10));
    });

    it("ends with a process that reads nothing, although input goes on", limit, async () => {
      const endless = new Readable({
        read() {
          this.push(Buffer.alloc(65_536));
        },
      });
      const result = await runtime.exec("busy", { command: ["true"] }, client(endless), never);
      assert.equal(result.exitCode, 0);
    });

    it("is not held up by a process in the background", limit, async () => {
      const streams = client();
      const command = ["sh", "-c", "echo first; sleep 1000 & echo last"];
      const { exitCode } = await runtime.exec("busy", { command }, streams, never);
      assert.equal(exitCode, 0);
      assert.equal(await streams.out, "first\nlast\n");
    });

    describe("in the machine's PID namespace", () => {
      before(async () => {
        const ofMachine = { ...sandbox, pidNamespace: "/proc/1/ns/pid" };
        await runtime.create(spec("open", "while :; do sleep 1; done", { sandbox: ofMachine }));
        await runtime.start("open");
      });
      after(async () => {
        await runtime.remove("open");
      });

      it("is not held up by a process in the background", limit, async () => {
        const streams = client(Readable.from(["input\n"]));
        const command = ["sh", "-c", "read line; sleep 1000 & echo $line $!; echo bad >&2; exit 3"];
        const { exitCode } = await runtime.exec("open", { command }, streams, never);
        assert.equal(exitCode, 3);
        assert.equal(await streams.err, "bad\n");
        const pid = /^input (\d+)\n$/.exec(await streams.out)?.[1];
        assert.match(readFileSync(`/proc/${pid}/cmdline`, "utf8"), /^sleep\0/);
      });

      it("is not held up by one that no longer has a terminal", limit, async () => {
        const streams = { ...client(), tty: true };
        const command = ["sh", "-c", "sleep 1000 & exit 4"];
        const { exitCode } = await runtime.exec("open", { command }, streams, never);
        assert.equal(exitCode, 4);
      });

      it("is not held up by one that ignores the end of its terminal", limit, async () => {
        const resizes = new AsyncQueue<TerminalSize>();
        resizes.push({ rows: 25, columns: 90 });
        const streams = { ...client(Readable.from(["typed\n"])), tty: true, resizes };
        const script = `trap "" HUP; stty size; read line; sleep 1000 & echo "$line" $!; exit 4`;
        const command = ["sh", "-c", script];
        const { exitCode } = await runtime.exec("open", { command }, streams, never);
        assert.equal(exitCode, 4);
        const printed = await streams.out;
        assert.match(printed, /25 90\r\n/);
        const pid = /^typed (\d+)\r\n$/m.exec(printed)?.[1];
        assert.match(readFileSync(`/proc/${pid}/cmdline`, "utf8"), /^sleep\0/);
        process.kill(Number(pid), "SIGKILL");
      });

      it("shows a signal, and fails for a missing command", limit, async () => {
        const killed = { command: ["sh", "-c", "kill -9 $$"] };
        assert.equal((await runtime.exec("open", killed, client(), never)).exitCode, 137);
        await assert.rejects(
          runtime.exec("open", { command: ["nosuch"] }, client(), never),
          (error) => RuntimeError.is(error, "EXEC_FAILED") && error.execFailure === "not-found",
        );
      });

      it("kills the process and its children when it is aborted", limit, async () => {
        const abort = new AbortController();
        const stdout = new PassThrough();
        const command = ["sh", "-c", "sleep 4322 & echo started $!; sleep 4322"];
        const result = runtime.exec("open", { command }, { stdout, tty: false }, abort.signal);
        result.catch(() => {});
        const pid = /started (\d+)/.exec(await until(stdout, /started \d+\n/))?.[1];
        abort.abort(new Error("client gone"));
        await assert.rejects(result, /client gone/);
        // The machine's first process reaps what the killed shell had started.
        await eventually(() => !existsSync(`/proc/${pid}`));
      });
    });

    it("shows a signal as 128 and its number", limit, async () => {
      const { exitCode } = await runtime.exec(
        "busy",
        { command: ["sh", "-c", "kill -9 $$"] },
        client(),
        never,
      );
      assert.equal(exitCode, 137);
    });

    it("gives another user no capabilities", limit, async () => {
      const streams = client();
      const user = { uid: 1000, gid: 1000, additionalGids: [2000] };
      await runtime.exec(
        "busy",
        { command: ["sh", "-c", "id; grep CapEff /proc/self/status"], user },
        streams,
        never,
      );
      assert.match(await streams.out, /uid=1000 gid=1000 groups=(1000,)?2000\nCapEff:\s0{16}\n/);
    });

    it("fails differently for a missing command and a missing container", limit, async () => {
      await assert.rejects(
        runtime.exec("busy", { command: ["nosuch"] }, client(), never),
        (error) => RuntimeError.is(error, "EXEC_FAILED") && error.execFailure === "not-found",
      );
      await assert.rejects(runtime.exec("other", { command: ["true"] }, client(), never), {
        code: "CONTAINER_NOT_FOUND",
      });
    });

    it("kills the process and its children when it is aborted", limit, async () => {
      const abort = new AbortController();
      const stdout = new PassThrough();
      const streams = { stdout, tty: false };
      const command = ["sh", "-c", "sleep 4321 & echo started; sleep 4321"];
      const result = runtime.exec("busy", { command }, streams, abort.signal);
      result.catch(() => {});
      await until(stdout, /started/);
      abort.abort(new Error("client gone"));
      await assert.rejects(result, /client gone/);
      const after = client();
      await runtime.exec(
        "busy",
        { command: ["sh", "-c", "ps | grep -c '[s]leep 4321'"] },
        after,
        never,
      );
      assert.equal(await after.out, "0\n");
    });

    it("resizes a terminal, and hands its exit code through", limit, async () => {
      const stdin = new PassThrough();
      const stdout = new PassThrough();
      const resizes = new AsyncQueue<TerminalSize>();
      resizes.push({ rows: 25, columns: 90 });
      const command = [
        "sh",
        "-c",
        'test -t 0 && echo tty; while read word; do stty size; [ "$word" = end ] && exit 5; done',
      ];
      const started = performance.now();
      const result = runtime.exec(
        "busy",
        { command },
        { stdin, stdout, tty: true, resizes },
        never,
      );
      await until(stdout, /tty/);
      timings["exec with terminal, first output"] = Math.round(performance.now() - started);
      // Another process applies the size, so ask until it is applied.
      for (let tries = 0; tries < 50; tries++) {
        stdin.write("size\n");
        if (/25 90/.test(await until(stdout, /\d+ \d+\r\n|stty: .*\r\n/))) break;
      }
      resizes.push({ rows: 40, columns: 132 });
      for (let tries = 0, last = ""; tries < 50 && !/40 132/.test(last); tries++) {
        stdin.write("size\n");
        last = await until(stdout, /\d+ \d+\r\n/);
        assert.match(last, /25 90|40 132/);
      }
      stdin.write("end\n");
      assert.match(await text(stdout), /40 132/);
      assert.equal((await result).exitCode, 5);
    });

    it("shows in the container's figures", limit, async () => {
      const stats = await runtime.stats("busy");
      assert.ok(stats.cpuUsageNanoseconds > 0);
      assert.ok(
        stats.memoryUsageBytes >= stats.memoryWorkingSetBytes && stats.memoryWorkingSetBytes > 0,
      );
    });
  });

  it("follows logs to the container's end", limit, async () => {
    const wanted = spec("chatty", "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done");
    await runtime.create(wanted);
    const followed = text(runtime.logs("chatty", wanted.logDirectory, { follow: true }, never));
    await runtime.start("chatty");
    assert.equal(await followed, "line 1\nline 2\nline 3\nline 4\nline 5\n");
    assert.equal(
      await text(runtime.logs("chatty", wanted.logDirectory, { tailLines: 2 }, never)),
      "line 4\nline 5\n",
    );
    await runtime.remove("chatty");
  });

  it("attaches to a container's input and output", limit, async () => {
    await runtime.create(
      spec("talker", "while read word; do echo got $word; done; exit 4", { stdin: "once" }),
    );
    await runtime.start("talker");
    const stdin = new PassThrough();
    const stdout = new PassThrough();
    const result = runtime.attach("talker", { stdin, stdout, tty: false }, never);
    stdin.write("one\n");
    await until(stdout, /got one\n/);
    stdin.end("two\n");
    assert.match(await text(stdout), /got two\n/);
    assert.equal((await result).exitCode, 4);
    await assert.rejects(runtime.attach("talker", { tty: false }, never), {
      code: "EXEC_FAILED",
      message: 'Cannot attach to container "talker": it has ended',
    });
    await runtime.remove("talker");
  });

  it("resizes a terminal that it attaches to", limit, async () => {
    const command = 'while read word; do stty size; [ "$word" = end ] && exit 6; done';
    await runtime.create(spec("terminal", command, { stdin: "open", tty: true }));
    await runtime.start("terminal");
    const stdin = new PassThrough();
    const stdout = new PassThrough();
    const resizes = new AsyncQueue<TerminalSize>();
    resizes.push({ rows: 30, columns: 100 });
    const result = runtime.attach("terminal", { stdin, stdout, tty: true, resizes }, never);
    for (let tries = 0, last = ""; tries < 50 && !/30 100/.test(last); tries++) {
      stdin.write("size\n");
      last = await until(stdout, /\d+ \d+\r\n|stty: .*\r\n/);
    }
    stdin.write("end\n");
    assert.match(await text(stdout), /30 100/);
    assert.equal((await result).exitCode, 6);
    await runtime.remove("terminal");
  });

  it("takes over the containers of an earlier life", limit, async () => {
    await runtime.create(spec("survivor", "sleep 1000 & wait", { labels: { pod: "p1" } }));
    await runtime.start("survivor");
    await runtime.create(spec("waiting", "exit 9"));
    await runtime[Symbol.asyncDispose]();
    const gone = spec("gone", "exit 0");
    // The state after a kill in the middle of a creation.
    await mkdir(path.join(home, "run/containers", gone.id));
    runtime = await timed("createRuntime with 2 containers", newRuntime);
    const states = new Map((await runtime.list()).map((state) => [state.id, state]));
    assert.deepEqual([...states.keys()].sort(), ["survivor", "waiting"]);
    assert.equal(states.get("survivor")?.status, "running");
    assert.deepEqual(states.get("survivor")?.labels, { pod: "p1" });
    assert.equal(states.get("waiting")?.status, "created");
    const streams = client();
    await runtime.exec("survivor", { command: ["echo", "still here"] }, streams, never);
    assert.equal(await streams.out, "still here\n");
    const exits = [nextExit("survivor"), nextExit("waiting")];
    await runtime.start("waiting");
    await runtime.kill("survivor", "SIGKILL");
    assert.deepEqual(
      (await Promise.all(exits)).map((exit) => exit.exitCode),
      [137, 9],
    );
    await runtime.remove("survivor");
    await runtime.remove("waiting");
  });

  it("counts a container as lost whose monitor was killed", limit, async () => {
    await runtime.create(spec("orphan", "sleep 1000"));
    await runtime.start("orphan");
    const monitor = Number(
      await readFile(path.join(home, "run/containers/orphan/conmon.pid"), "utf8"),
    );
    const exit = nextExit("orphan");
    process.kill(monitor, "SIGKILL");
    while (existsSync(`/proc/${monitor}`)) await new Promise((resolve) => setImmediate(resolve));
    const [state] = await runtime.list();
    assert.equal(state?.status, "exited");
    assert.equal((await exit).lost, true);
    await runtime.remove("orphan");
  });

  it("notices by itself that a monitor was killed, and ends its container", limit, async () => {
    await runtime.create(spec("deserted", "sleep 1000"));
    await runtime.start("deserted");
    const pids = ["conmon.pid", "pid"].map((name) =>
      Number(readFileSync(path.join(home, "run/containers/deserted", name), "utf8")),
    );
    const exit = nextExit("deserted");
    process.kill(pids[0] ?? 0, "SIGKILL");
    assert.equal((await exit).lost, true);
    await eventually(() => !existsSync(`/proc/${pids[1]}`));
    await runtime.remove("deserted");
  });

  it("has two containers of a pod share network, memory and host name", limit, async (t) => {
    if (!/^\w+\t00000000\t/m.test(readFileSync("/proc/net/route", "utf8")))
      return t.skip("needs a default route");
    const before = machineState();
    const options = {
      runDir: path.join(home, "run"),
      name: "t-pod",
      hostname: "pod-a",
      podIp: "198.19.255.77",
      logger: silentLogger,
    };
    const own = sandbox;
    sandbox = await timed(
      "createPodSandbox (own network)",
      async () => await createPodSandbox(options),
    );
    try {
      assert.deepEqual(
        await timed("createPodSandbox taken over", async () => await createPodSandbox(options)),
        sandbox,
      );
      await runtime.create(
        spec(
          "server",
          "hostname; echo shared > /dev/shm/x; echo served > /tmp/page; exec httpd -f -p 8080 -h /tmp",
        ),
      );
      await runtime.create(
        spec(
          "caller",
          "until wget -q -O - http://127.0.0.1:8080/page; do sleep 0.1; done; cat /dev/shm/x; hostname; ip -o address show dev eth0",
        ),
      );
      const exit = nextExit("caller");
      await runtime.start("server");
      await runtime.start("caller");
      assert.equal((await exit).exitCode, 0);
      assert.match(await logOf("caller"), /served\nshared\npod-a\n.*inet 198\.19\.255\.77\/32/);
      // From the cell to the pod, and from the pod to the cell.
      const answer = await fetch("http://198.19.255.77:8080/page");
      assert.equal(await answer.text(), "served\n");
    } finally {
      await runtime.remove("server");
      await runtime.remove("caller");
      await removePodSandbox(options);
      await removePodSandbox(options);
      sandbox = own;
    }
    assert.deepEqual(machineState(), before);
  });

  it(
    "makes a pod reachable for a machine on the cell's link at the pod's own address",
    limit,
    async () => {
      const ip = async (...args: string[]): Promise<void> => void (await runCommand("ip", args));
      const options = {
        runDir: path.join(home, "run"),
        name: "t-lan",
        hostname: "pod-c",
        podIp: "198.19.254.9",
        hostInterface: "kip-t-nic",
        logger: silentLogger,
      };
      const own = sandbox;
      // The other machine is in the same subnet as the cell and the pod, and has no route.
      await ip("netns", "add", "kip-t-other");
      try {
        await ip("link", "add", "kip-t-nic", "type", "veth", "peer", "nic", "netns", "kip-t-other");
        await ip("address", "add", "198.19.254.1/24", "dev", "kip-t-nic");
        await ip("link", "set", "kip-t-nic", "up");
        await ip("-n", "kip-t-other", "address", "add", "198.19.254.2/24", "dev", "nic");
        await ip("-n", "kip-t-other", "link", "set", "nic", "up");
        sandbox = await createPodSandbox(options);
        await runtime.create(
          spec("page", "echo served > /tmp/page; exec httpd -f -p 8080 -h /tmp"),
        );
        await runtime.start("page");
        const command =
          "until busybox wget -q -O - http://198.19.254.9:8080/page; do sleep 0.1; done";
        const { stdout } = await timed(
          "first request from another machine",
          async () =>
            await runCommand("ip", ["netns", "exec", "kip-t-other", "sh", "-c", command], {
              timeoutMs: 60_000,
            }),
        );
        assert.equal(stdout, "served\n");
      } finally {
        await runtime.remove("page");
        await removePodSandbox(options);
        // A deleted namespace removes its cable too, but later.
        await ip("link", "del", "kip-t-nic").catch(() => {});
        await ip("netns", "del", "kip-t-other");
        sandbox = own;
      }
    },
  );

  it("has containers with a shared process namespace see each other", limit, async () => {
    const options = {
      runDir: path.join(home, "run"),
      name: "t-pids",
      hostname: "pod-b",
      shareProcessNamespace: true,
      logger: silentLogger,
    };
    const before = machineState();
    const own = sandbox;
    sandbox = await createPodSandbox(options);
    try {
      assert.deepEqual(await createPodSandbox(options), sandbox);
      await runtime.create(spec("first", "sleep 7654 & wait"));
      await runtime.start("first");
      const exit = await runToEnd(
        spec("second", "until ps | grep '[s]leep 7654'; do sleep 0.1; done"),
      );
      assert.equal(exit.exitCode, 0);
    } finally {
      await runtime.remove("first");
      await runtime.remove("second");
      await removePodSandbox(options);
      sandbox = own;
    }
    assert.deepEqual(machineState(), before);
  });

  it("applies mounts, a read-only root, users and dropped rights", limit, async () => {
    const source = path.join(home, "volume");
    await mkdir(source);
    await writeFile(path.join(source, "file"), "content\n");
    const exit = await runToEnd(
      spec(
        "strict",
        "cat /data/deep/file; touch /data/deep/no; touch /no; touch /scratch/yes && echo scratch; id -u; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; cat /proc/sys/net/ipv4/ip_unprivileged_port_start; ls /proc/acpi /proc/keys",
        {
          mounts: [
            {
              type: "tmpfs",
              source: "",
              destination: "/scratch",
              readOnly: false,
              options: ["size=1m", "mode=1777"],
            },
            { source, destination: "/data/deep", readOnly: true },
          ],
          user: { uid: 1234, gid: 1234, additionalGids: [] },
          dropCapabilities: ["ALL"],
          addCapabilities: ["net_bind_service"],
          allowPrivilegeEscalation: false,
        },
      ),
    );
    const log = await logOf("strict");
    assert.equal(exit.exitCode, 0, log);
    assert.match(log, /content\n/);
    assert.match(log, /\/data\/deep\/no: Read-only file system/);
    assert.match(log, /scratch\n1234\n/);
    assert.match(log, /CapBnd:\s0000000000000400\nNoNewPrivs:\s1\n/);
    await runtime.remove("strict");
  });
});

/** Everything that a pod must not leave behind. */
function machineState(): unknown {
  const groups = "/sys/fs/cgroup/kip";
  return {
    mounts: readFileSync("/proc/self/mounts", "utf8").split("\n").sort(),
    interfaces: readdirSync("/sys/class/net").sort(),
    groups: readdirSync(groups)
      .filter((name) => statSync(path.join(groups, name)).isDirectory())
      .sort(),
    namespaces: existsSync("/run/netns") ? readdirSync("/run/netns") : [],
    routes: readFileSync("/proc/net/route", "utf8"),
    shared: readdirSync("/dev/shm").sort(),
  };
}
