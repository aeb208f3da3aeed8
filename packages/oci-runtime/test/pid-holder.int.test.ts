// Makes PID namespaces: needs root.
import assert from "node:assert/strict";
import { mkdir, readFile, readlink, stat } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { findPidHolder, startPidHolder } from "../src/sandbox/pid-holder.ts";
import { inNewNamespaces, removeNamespaces } from "../src/sandbox/namespaces.ts";

const skip = process.getuid?.() === 0 ? false : "needs root";

describe("startPidHolder()", { skip, timeout: 60_000 }, () => {
  const temporary = temporaryFolder();
  const folder = temporary.path;
  let file = "";
  let ipc = "";
  let net = "";
  let holder = 0;
  before(async () => {
    await mkdir(path.join(folder, "sandbox"));
    [file, ipc, net] = ["pid", "ipc", "net"].map((name) => path.join(folder, "sandbox", name)) as [
      string,
      string,
      string,
    ];
    const [program = "", ...args] = inNewNamespaces({ ipc, net });
    await runCommand(program, [...args, "/bin/true"]);
    await startPidHolder(file, { joined: [ipc, net] });
    holder = (await findPidHolder(file)) ?? 0;
  });
  after(async () => {
    if (holder > 0) process.kill(holder, "SIGKILL");
    await removeNamespaces([file, ipc, net]);
    temporary.remove();
  });

  /** Runs in the holder's PID namespace as root with all capabilities, which is more than a container has. */
  const inside = async (script: string): Promise<string> => {
    const mount = `mount -t proc proc /proc && ${script}`;
    const command = [`--pid=${file}`, "--", "unshare", "--mount", "--", "sh", "-c", mount];
    return (await runCommand("nsenter", command)).stdout.trim();
  };

  it("has a first process without any right, of a user that no container has", async () => {
    const status = await readFile(`/proc/${holder}/status`, "utf8");
    for (const set of ["Inh", "Prm", "Eff", "Bnd", "Amb"])
      assert.match(status, new RegExp(`^Cap${set}:\\t0{16}$`, "m"), set);
    assert.match(status, /^NoNewPrivs:\t1$/m);
    assert.match(status, /^Uid:(\t4294967280){4}$/m);
    assert.match(status, /^Gid:(\t4294967280){4}$/m);
    assert.match(status, /^Groups:\s*$/m);
    assert.match(status, /^NSpid:\t\d+\t1$/m);
  });

  it("shows nothing of this machine through its root, its descriptors or its program", async () => {
    assert.equal(
      await inside("ls -A /proc/1/root /proc/1/cwd/"),
      "/proc/1/cwd/:\npause\n\n/proc/1/root:\npause",
    );
    assert.equal(await inside("ls -A /proc/1/fd"), "");
    assert.equal(await inside("cat /proc/1/environ"), "");
    assert.equal(await inside("cat /proc/1/mountinfo | wc -l"), "1");
    for (const place of ["root/new", "root/pause", "exe"]) {
      const written = inside(`sh -c 'echo broken >/proc/1/${place}'`);
      await assert.rejects(written, /Read-only file system/, place);
    }
  });

  it("is in the namespaces it is given, and in a cgroup namespace of its own", async () => {
    for (const [kind, wanted] of [
      ["ipc", ipc],
      ["net", net],
    ] as const)
      assert.equal((await stat(`/proc/${holder}/ns/${kind}`)).ino, (await stat(wanted)).ino);
    for (const kind of ["mnt", "cgroup", "pid"])
      assert.notEqual(
        await readlink(`/proc/${holder}/ns/${kind}`),
        await readlink(`/proc/self/ns/${kind}`),
      );
  });

  it("reaps the orphans that come to it", async () => {
    // A grandchild whose parent ends at once. It ends after the holder has become its parent.
    await inside("( ( read -r _ </proc/self/stat; exec sleep 0.2 ) & )");
    const left =
      "until ! grep -l '^PPid:.1$' /proc/[0-9]*/status; do sleep 0.05; done 2>/dev/null; echo none";
    assert.match(await inside(left), /none$/);
  });

  it("is not killed by a process of the namespace", async () => {
    await inside("kill -KILL 1; kill -TERM 1");
    assert.equal(await findPidHolder(file), holder);
  });

  it("reports why it could not be started, and leaves no process", async () => {
    const other = path.join(folder, "sandbox", "other");
    try {
      await assert.rejects(startPidHolder(other, { joined: [path.join(folder, "missing")] }), {
        code: "POD_SANDBOX_FAILED",
        message: /open .*missing: No such file or directory/,
      });
      assert.equal(await findPidHolder(other), undefined);
    } finally {
      await removeNamespaces([other]);
    }
  });
});
