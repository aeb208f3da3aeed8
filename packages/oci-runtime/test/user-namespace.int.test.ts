// Makes namespaces: needs root.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readlinkSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { isNamespace, removeNamespaces } from "../src/sandbox/namespaces.ts";
import { findPidHolder, startPidHolder } from "../src/sandbox/pid-holder.ts";
import { makeUserNamespace } from "../src/sandbox/user-namespace.ts";

const skip = process.getuid?.() === 0 ? false : "needs root";

describe("makeUserNamespace()", { skip, timeout: 60_000 }, () => {
  const temporary = temporaryFolder();
  const folder = path.join(temporary.path, "sandbox");
  const file = (name: string): string => path.join(folder, name);
  let holder = 0;
  before(async () => {
    // Like the agent's folder: a process that is root only in the namespace cannot enter.
    mkdirSync(folder, { mode: 0o700 });
    await makeUserNamespace(
      { file: file("user"), firstId: 65_536, idCount: 65_536 },
      { ipc: file("ipc"), net: file("net"), uts: file("uts") },
    );
  });
  after(async () => {
    if (holder > 0) process.kill(holder, "SIGKILL");
    await removeNamespaces(["user", "ipc", "net", "uts", "pid"].map(file));
    temporary.remove();
  });

  const inside = async (...command: readonly string[]): Promise<string> => {
    const namespaces = ["user", "ipc", "net", "uts"].map((name) => `--${name}=${file(name)}`);
    const { stdout } = await runCommand("nsenter", [...namespaces, "--", ...command]);
    return stdout.trim().replaceAll(/\s+/g, " ");
  };

  it("maps its users from 0 on, and none else", async () => {
    assert.equal(await inside("cat", "/proc/self/uid_map"), "0 65536 65536");
    assert.equal(await inside("cat", "/proc/self/gid_map"), "0 65536 65536");
  });

  it("makes namespaces in which its root may do what root may, and no other", async () => {
    assert.match(await inside("sh", "-c", "ip link set lo up && ip link show lo"), /LOOPBACK,UP/);
    await inside("sh", "-c", "hostname own");
    const { stdout } = await runCommand("hostname", []);
    assert.notEqual(stdout.trim(), "own");
    await assert.rejects(inside("sh", "-c", "echo 1 >/proc/sys/vm/swappiness"));
  });

  it("keeps the first process of a PID namespace among them, a user of theirs without a right", async () => {
    await startPidHolder(file("pid"), {
      user: file("user"),
      joined: ["ipc", "uts", "net"].map(file),
    });
    holder = (await findPidHolder(file("pid"))) ?? 0;
    const status = readFileSync(`/proc/${holder}/status`, "utf8");
    assert.match(status, /^Uid:(\t131071){4}$/m);
    for (const set of ["Inh", "Prm", "Eff", "Bnd", "Amb"])
      assert.match(status, new RegExp(`^Cap${set}:\\t0{16}$`, "m"), set);
    assert.match(status, /^NSpid:\t\d+\t1$/m);
    const own = await inside("readlink", "/proc/self/ns/user");
    assert.equal(readlinkSync(`/proc/${holder}/ns/user`), own);
    const root = await runCommand("ls", ["-A", `/proc/${holder}/root/`]);
    assert.equal(root.stdout, "pause\n");
  });

  it("leaves nothing bound when it fails", async () => {
    const users = { file: file("other"), firstId: 4_294_967_295, idCount: 65_536 };
    await assert.rejects(
      makeUserNamespace(users, { ipc: file("none") }),
      /write uid_map|open uid_map/,
    );
    assert.equal(await isNamespace(file("other")), false);
  });
});
