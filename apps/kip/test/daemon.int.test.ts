import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { programNames } from "@kip/control-plane";
import { temporaryFolder } from "@kip/testing";

const app = path.join(import.meta.dirname, "..");
const skip = process.getuid?.() === 0 ? false : "kip up is for root only";

describe("the daemon of kip up", { skip, timeout: 100_000 }, () => {
  it("records the cluster first, so that kip down removes its network after a failed start", async () => {
    using folder = temporaryFolder();
    const state = path.join(folder.path, "state");
    const namespace = `kipd${process.pid}`;
    const daemon = startDaemon(folder.path, namespace);
    const ended = once(daemon, "exit");
    const [message] = (await once(daemon, "message", {
      signal: AbortSignal.timeout(60_000),
    })) as [{ readonly kind: string }];
    assert.equal(message.kind, "progress");
    assert.deepEqual(await ended, [1, null]);
    assert.ok(existsSync(`/run/kip/${namespace}`), "the network was made");

    const flags = [`--state-dir=${state}`, `--cache-dir=${folder.path}/cache`];
    const down = spawnSync(path.join(app, "bin/kip"), ["down", ...flags], { encoding: "utf8" });
    assert.equal(down.status, 0, down.stderr);
    assert.ok(!existsSync(`/run/kip/${namespace}`), "the network was removed");
    assert.ok(!existsSync(state));
  });

  it("ends when kip up ends before it has started", async () => {
    using folder = temporaryFolder();
    const namespace = `kipe${process.pid}`;
    const daemon = startDaemon(folder.path, namespace);
    daemon.disconnect();
    await once(daemon, "exit");
    const log = readFileSync(path.join(folder.path, "state/logs/kip-up.log"), "utf8");
    assert.match(log, /kip up was interrupted/);
    const flags = [`--state-dir=${folder.path}/state`, `--cache-dir=${folder.path}/cache`];
    const down = spawnSync(path.join(app, "bin/kip"), ["down", ...flags], { encoding: "utf8" });
    assert.equal(down.status, 0, down.stderr);
  });
});

/** Starts a daemon whose Kubernetes programs fail at once. */
function startDaemon(folder: string, namespace: string): ChildProcess {
  const binaries = path.join(folder, "binaries");
  mkdirSync(binaries);
  for (const name of programNames) symlinkSync("/bin/false", path.join(binaries, name));
  mkdirSync(path.join(folder, "state/logs"), { recursive: true });
  return spawn(
    process.execPath,
    [
      path.join(app, "src/main.ts"),
      "local-daemon",
      `--state-dir=${folder}/state`,
      `--cache-dir=${folder}/cache`,
      `--binaries-dir=${binaries}`,
      `--kubeconfig=${folder}/kubeconfig`,
      `--namespace-name=${namespace}`,
      "--network-range=198.18.240.0/22",
      "--service-range=10.115.0.0/16",
      "--port=36443",
      "--image=none",
      "--templates=false",
    ],
    {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { ...process.env, KIP_LOCAL_CLUSTER: `${folder}/state` },
    },
  );
}
