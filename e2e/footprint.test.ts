import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { kipCommand, removeCluster, run } from "./cluster.ts";

/** What of a machine `kip up` and `kip down` could leave changed. */
async function footprint(): Promise<Readonly<Record<string, readonly string[]>>> {
  const lines = async (command: string, ...args: readonly string[]): Promise<readonly string[]> =>
    (await run(command, args)).stdout.split("\n").sort();
  return {
    interfaces: (await lines("ip", "-o", "link")).map((line) => line.split(": ")[1] ?? ""),
    addresses: (await lines("ip", "-o", "addr")).map((line) => line.replace(/valid_lft.*/, "")),
    routes: await lines("ip", "route", "show", "table", "all"),
    namespaces: await lines("ip", "netns"),
    rules: await lines("nft", "list", "ruleset"),
    mounts: readFileSync("/proc/self/mounts", "utf8").split("\n").sort(),
    forwarding: [readFileSync("/proc/sys/net/ipv4/ip_forward", "utf8")],
    processes: programs(),
  };
}

/** Command lines of the programs that a local cluster consists of. */
function programs(): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
      } catch {
        return "";
      }
    })
    .filter((line) =>
      /etcd|kube-|qemu-system|docker-registry|slirp4netns|pasta|main\.ts/.test(line),
    )
    .sort();
}

describe("kip up and kip down", () => {
  it("leave the machine as it was, also after an interruption", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-footprint-"));
    const flags = [
      `--state-dir=${folder}/state`,
      `--kubeconfig=${folder}/kubeconfig`,
      "--namespace-name=kip-foot",
    ];
    const upFlags = [
      ...flags,
      "--port=16553",
      "--registry-port=15553",
      "--network-range=198.18.248.0/22",
    ];
    // Machines of other tests come and go, and templates are made in the background; the next test has it started anew.
    assert.equal(removeCluster(), 0);
    const before = await footprint();
    const interrupted = await run(
      path.join(import.meta.dirname, "../apps/kip/bin/kip"),
      ["up", ...upFlags],
      { timeoutMs: 2500 },
    );
    assert.notEqual(interrupted.status, 0, "the run was to be cut short");
    const up = await kipCommand("up", ...upFlags);
    assert.equal(up.status, 0, up.stderr);
    const second = await kipCommand("up", ...upFlags);
    assert.match(second.stdout, /is running/);
    assert.match(readFileSync(`${folder}/kubeconfig`, "utf8"), /kip-local/);
    const status = await kipCommand("status", ...flags);
    assert.match(status.stdout, /Ready/);
    for (let time = 0; time < 2; time++) {
      const down = await kipCommand("down", ...flags);
      assert.equal(down.status, 0, down.stderr);
    }
    assert.deepEqual(await footprint(), before);
    assert.ok(!existsSync(`${folder}/kubeconfig`), "a kubeconfig that held nothing else goes too");
    rmSync(folder, { recursive: true });
  });
});
