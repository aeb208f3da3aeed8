import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { emptyFolder, kipCommand, removeCluster, run, stateDir } from "./cluster.ts";

/** The parts of a computer's state that `kip up` and `kip down` could leave changed. */
async function footprint(
  ours: readonly string[],
): Promise<Readonly<Record<string, readonly string[]>>> {
  const lines = async (command: string, ...args: readonly string[]): Promise<readonly string[]> =>
    (await run(command, args)).stdout.split("\n").sort();
  return {
    interfaces: (await lines("ip", "-o", "link")).map((line) => line.split(": ")[1] ?? ""),
    addresses: (await lines("ip", "-o", "addr")).map((line) => line.replace(/valid_lft.*/, "")),
    routes: await lines("ip", "route", "show", "table", "all"),
    rules: await lines("nft", "list", "ruleset"),
    forwarding: [readFileSync("/proc/sys/net/ipv4/ip_forward", "utf8")],
    // Other programs also mount, start and end meanwhile. So only lines that name the cluster count.
    namespaces: (await lines("ip", "netns")).filter((line) => mentions(line, ours)),
    mounts: readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .filter((line) => mentions(line, ours)),
    processes: programs(ours),
  };
}

function mentions(text: string, ours: readonly string[]): boolean {
  return ours.some((word) => text.includes(word));
}

/**
 * Command lines of a cluster's processes. Their arguments, environment or working folder contain its state folder or namespace.
 */
function programs(ours: readonly string[]): readonly string[] {
  const found: string[] = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    if (Number(pid) === process.pid) continue;
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
      const folders = [readlinkSync(`/proc/${pid}/cwd`), readlinkSync(`/proc/${pid}/root`)];
      if (mentions([line, environment, ...folders].join("\n"), ours)) found.push(line);
    } catch {
      // The process has ended.
    }
  }
  return found.sort();
}

describe("kip up and kip down", () => {
  it("leave the machine as it was, also after an interruption", async () => {
    const folder = `${stateDir}-footprint`;
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
      "--service-range=10.113.0.0/16",
    ];
    // The shared cluster would disturb this test: its machines come and go, and it creates templates in the background. The
    // next test starts it again.
    assert.equal(removeCluster(), 0);
    await emptyFolder(folder, flags);
    const ours = [folder, "kip-foot/", "kip-foot "];
    const before = await footprint(ours);
    assert.deepEqual(before["processes"], []);
    const interrupted = await run(
      path.join(import.meta.dirname, "../apps/kip/bin/kip"),
      ["up", ...upFlags],
      { timeoutMs: 2500 },
    );
    assert.notEqual(interrupted.status, 0, "the run was to be cut short");
    const up = await kipCommand("up", ...upFlags);
    assert.equal(up.status, 0, up.stderr);
    const whileUp = (await footprint(ours))["processes"]?.join("\n") ?? "";
    for (const program of ["etcd", "kube-apiserver", "docker-registry", "slirp4netns", "main.ts"])
      assert.ok(whileUp.includes(program), `${program} counts as a process of the cluster`);
    const second = await kipCommand("up", ...upFlags);
    assert.match(second.stdout, /is running/);
    assert.match(readFileSync(`${folder}/kubeconfig`, "utf8"), /kip-local/);
    const status = await kipCommand("status", ...flags);
    assert.match(status.stdout, /Ready/);
    for (let time = 0; time < 2; time++) {
      const down = await kipCommand("down", ...flags);
      assert.equal(down.status, 0, down.stderr);
    }
    assert.deepEqual(await footprint(ours), before);
    assert.ok(!existsSync(`${folder}/kubeconfig`), "a kubeconfig that held nothing else goes too");
    rmSync(folder, { recursive: true });
  });
});
