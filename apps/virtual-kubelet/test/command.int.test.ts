// The command as separate processes: how it starts, how it ends, and how replicas take over.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease, Pod } from "@kip/k8s-types";
import { until } from "@kip/virtual-kubelet/testing";

const program = path.join(import.meta.dirname, "../bin/virtual-kubelet");
const provider = (name: string): string =>
  path.join(import.meta.dirname, "support", `${name}-provider.ts`);
let plane: SharedControlPlane;
let admin: ApiClient;
let folder: string;
const children = new Set<ChildProcess>();

before(
  async () => {
    plane = await sharedControlPlane();
    folder = await mkdtemp(path.join(tmpdir(), "vk-command-"));
    admin = createApiClient(await loadKubeConfig({ path: plane.kubeconfigPath }), {
      userAgent: "test/1",
      logger: silentLogger,
      clock: systemClock,
    });
  },
  { timeout: 900_000 },
);

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  admin.close();
  await plane[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Starts the command. `ended` resolves with its exit code and signal. `said` is its output. */
function start(args: readonly string[]): {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly ended: Promise<readonly [number | null, NodeJS.Signals | null]>;
  readonly said: Promise<string>;
} {
  const child = spawn(program, [
    `--kubeconfig=${plane.kipKubeconfigPath}`,
    "--node-ip=192.0.2.1",
    "--kubelet-port=0",
    "--metrics-addr=off",
    ...args,
  ]);
  children.add(child);
  child.stdout.resume();
  const ended = once(child, "exit").then(([code, signal]) => {
    children.delete(child);
    return [code as number | null, signal as NodeJS.Signals | null] as const; // arguments of the event
  });
  return { child, pid: child.pid ?? 0, ended, said: text(child.stderr) };
}

const uniqueName = (): string => `command-${randomBytes(3).toString("hex")}`;

describe("virtual-kubelet --startup-timeout", { timeout: 60_000 }, () => {
  it("ends the program, with the reason, if the provider hangs", async () => {
    const run = start([`--provider=${provider("hanging")}`, "--startup-timeout=1s"]);
    assert.deepEqual(await run.ended, [1, null]);
    assert.match(
      await run.said,
      /Cannot start the node: it has not started after 1 s\n.*--startup/,
    );
  });

  it("ends the program if the API server does not answer", async () => {
    const kubeconfig = path.join(folder, "unreachable");
    const view = await plane.kubectl(["config", "view", "--raw"]);
    await writeFile(kubeconfig, view.replaceAll(plane.server, "https://127.0.0.1:1"));
    const run = start(["--provider=mock", "--startup-timeout=1s", `--kubeconfig=${kubeconfig}`]);
    assert.deepEqual(await run.ended, [1, null]);
    assert.match(await run.said, /Cannot start the node: it has not started after 1 s/);
  });

  it("does nothing to a node that is there in time", async () => {
    const nodeName = uniqueName();
    const run = start(["--provider=mock", "--startup-timeout=30s", `--nodename=${nodeName}`]);
    await plane.kubectl(["wait", "--for=create", `node/${nodeName}`, "--timeout=30s"]);
    run.child.kill("SIGTERM");
    assert.deepEqual(await run.ended, [0, null]);
    await plane.kubectl(["delete", "node", nodeName]);
  });

  it("a provider that hangs does not keep the program from being stopped", async () => {
    const run = start([`--provider=${provider("hanging")}`, "--log-level=debug", "-v=4"]);
    const { promise: isUp, resolve } = Promise.withResolvers<void>();
    run.child.stderr?.once("data", () => resolve());
    await isUp; // after its first line, it handles signals
    run.child.kill("SIGTERM");
    assert.deepEqual(await run.ended, [0, null]);
  });
});

describe("virtual-kubelet --standby", { timeout: 170_000 }, () => {
  it("takes over from a replica that is killed, within the lease, and no pod is handled by both", async () => {
    const nodeName = uniqueName();
    const namespace = await plane.createNamespace();
    const backend = path.join(folder, "backend");
    await mkdir(backend);
    const replica = (): ReturnType<typeof start> =>
      start([
        `--provider=${provider("noting")}`,
        `--provider-config=${backend}`,
        `--nodename=${nodeName}`,
        "--standby",
        "--log-level=warn",
      ]);
    const calls = async (): Promise<readonly { pid: number; call: string; uid: string }[]> =>
      (await readFile(path.join(backend, "calls"), "utf8"))
        .trimEnd()
        .split("\n")
        .map((line) => {
          const [pid, call = "", uid = ""] = line.split(" ");
          return { pid: Number(pid), call, uid };
        });
    const create = async (name: string): Promise<Pod> =>
      admin.create<Pod>(paths.pods(namespace), {
        metadata: { name },
        spec: {
          nodeName,
          tolerations: [{ operator: "Exists" }],
          containers: [{ name: "main", image: "none" }],
        },
      });
    const running = async (count: number): Promise<Pod[]> =>
      until<Pod>({
        client: admin,
        path: paths.pods(namespace),
        check: (pods) =>
          pods.length === count && pods.every(({ status }) => status?.phase === "Running"),
      });
    const lease = async (): Promise<Lease["spec"]> =>
      (await admin.get<Lease>(paths.leases("kube-node-lease", `${nodeName}.virtual-kubelet`))).spec;

    const replicas = [replica(), replica()];
    await Promise.all(["a", "b", "c"].map(create));
    const early = await running(3);
    const [first] = await calls();
    const leader = replicas.find(({ pid }) => pid === first?.pid) ?? assert.fail("no leader");
    const standby = replicas.find((each) => each !== leader) ?? assert.fail("no standby");
    assert.ok((await calls()).every(({ pid }) => pid === leader.pid));

    leader.child.kill("SIGKILL");
    await leader.ended;
    const last = await lease();
    await Promise.all(["d", "e"].map(create));
    await admin.delete(paths.pods(namespace, "a"));
    await running(4);
    const now = await lease();
    assert.equal(now?.leaseTransitions, (last?.leaseTransitions ?? 0) + 1);
    // Never before the dead replica's lease has expired. The additional delay depends on the machine.
    const waitedMs = Date.parse(String(now.acquireTime)) - Date.parse(String(last?.renewTime));
    const durationMs = (last?.leaseDurationSeconds ?? 0) * 1000;
    assert.ok(waitedMs >= durationMs, `${waitedMs} of ${durationMs} ms`);
    assert.ok(waitedMs < 2 * durationMs, `${waitedMs} of ${durationMs} ms`);

    const all = await calls();
    const change = all.findIndex(({ pid }) => pid === standby.pid);
    assert.ok(all.slice(change).every(({ pid }) => pid === standby.pid));
    const starts = all.filter(({ call }) => call === "start").map(({ uid }) => uid);
    assert.equal(starts.length, 5);
    assert.equal(new Set(starts).size, 5, "each pod was started once");
    const gone = early.find(({ metadata }) => metadata?.name === "a")?.metadata?.uid;
    assert.deepEqual(
      all.filter(({ call }) => call === "remove").map(({ uid }) => uid),
      [gone],
    );

    // A replica that is stopped hands over at once, and does not touch the pods.
    const third = replica();
    standby.child.kill("SIGTERM");
    assert.deepEqual(await standby.ended, [0, null]);
    await create("f");
    await running(5);
    assert.deepEqual(
      (await calls()).slice(all.length).map(({ pid, call }) => [pid, call]),
      [[third.pid, "start"]],
    );
    third.child.kill("SIGTERM");
    await third.ended;
    await plane.kubectl(["delete", "node", nodeName]);
    await plane.kubectl(["delete", "namespace", namespace, "--wait=false"]);
  });
});
