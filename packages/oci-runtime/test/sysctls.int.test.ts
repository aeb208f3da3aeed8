// Makes namespaces: needs root.
import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { inNewNamespaces, removeNamespaces } from "../src/sandbox/namespaces.ts";
import { setSysctls, withUsualSysctls, type Sysctl } from "../src/sandbox/sysctls.ts";
import { makeUserNamespace } from "../src/sandbox/user-namespace.ts";

const skip = process.getuid?.() === 0 ? false : "needs root";
const seen = ["ip_unprivileged_port_start", "ping_group_range", "tcp_fin_timeout"].map(
  (name) => `/proc/sys/net/ipv4/${name}`,
);

/** Sets the usual sysctls and then these in a pod's namespaces, and returns what is seen there. */
async function inPod(sysctls: readonly Sysctl[], hasOwnUsers: boolean): Promise<string> {
  using folder = temporaryFolder();
  const file = (name: string): string => path.join(folder.path, name);
  const [user, ipc, net] = [file("user"), file("ipc"), file("net")];
  const files = { ipc, net, user: hasOwnUsers ? user : undefined };
  try {
    if (hasOwnUsers)
      await makeUserNamespace({ file: user, firstId: 65_536, idCount: 65_536 }, { ipc, net });
    const enter = hasOwnUsers ? ["nsenter", `--net=${net}`] : inNewNamespaces({ ipc, net });
    const [program = "", ...words] = withUsualSysctls(enter, { hasOwnUsers });
    const { stdout: answer } = await runCommand(program, [...words, "echo", "goes on"]);
    assert.equal(answer, "goes on\n");
    await setSysctls(sysctls, files);
    const namespaces = [`--ipc=${ipc}`, `--net=${net}`];
    const command = ["--", "cat", ...seen, "/proc/sys/kernel/shm_rmid_forced"];
    const { stdout } = await runCommand("nsenter", [...namespaces, ...command]);
    return stdout.trim().replaceAll(/\s+/g, " ");
  } finally {
    await removeNamespaces([user, ipc, net]);
  }
}

describe("sysctls of a pod", { skip, timeout: 60_000 }, () => {
  const wanted = [
    { name: "net.ipv4.ping_group_range", value: "5\t6" },
    { name: "net/ipv4/tcp_fin_timeout", value: "61" },
    { name: "kernel.shm_rmid_forced", value: "1" },
  ];

  it("let all users listen on low ports and ping, as by containerd", async () => {
    assert.equal(await inPod([], false), "0 0 2147483647 60 0");
    assert.equal(await inPod([], true), "0 1 0 60 0");
  });

  it("are the pod's own where it has some", async () => {
    assert.equal(await inPod(wanted, false), "0 5 6 61 1");
    assert.equal(await inPod(wanted, true), "0 65541 65542 61 1");
  });

  it("say which one the kernel does not take", async () => {
    const wrong = [
      ["kernel.none", "1"],
      ["net.ipv4.tcp_fin_timeout", "long"],
    ] as const;
    for (const [name, value] of wrong)
      await assert.rejects(inPod([{ name, value }], false), {
        message: new RegExp(name.replaceAll(".", "/")),
      });
  });
});
