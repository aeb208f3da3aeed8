// Pods in arm64 cells of the local cloud, which are emulated on a computer of another architecture. The image is built without
// running its programs. Covers the parts of the agent that depend on the architecture. Needs root, and takes minutes.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import {
  type AgentClient,
  AgentError,
  type DesiredPod,
  type PodReport,
  waitForAgent,
} from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { buildCellImage, buildPackageTree } from "@kip/cell-image";
import type { Instance } from "@kip/cloud";
import { createLocalCloud, type LocalCloud } from "@kip/cloud-local";
import { CertificateAuthority } from "@kip/pki";
import { startBusyboxRegistry, type LayoutRegistry } from "@kip/testing";
import { container, desiredPod } from "../../../packages/cell-agent/test/desired-pod.ts";
import { launchCell } from "./support/launch-cell.ts";
import { whyNoArm64 } from "./support/why-no-arm64.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const skip = whyNoArm64();
const registryPort = 5081;
const hour = 3_600_000;
/** The machine is emulated, and other programs run at the same time. */
const startLimitMs = 600_000;
const podLimitMs = 300_000;

suite("pods in cells with arm64", { skip, timeout: 2_400_000 }, () => {
  const stack = new AsyncDisposableStack();
  let authority: CertificateAuthority;
  let cloud: LocalCloud;
  let image = "";
  let registry: LayoutRegistry;
  let cell: RealCell;

  before(async () => {
    // A fixed path, so that a run finds what an interrupted one has left.
    const stateDir = path.join(tmpdir(), "kip-test-arm64");
    stack.defer(() => rmSync(stateDir, { recursive: true, force: true }));
    authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
    const agentEntry = path.join(import.meta.dirname, "../src/main.ts");
    const architecture = "arm64";
    const common = { cacheDir, onProgress: console.log };
    await buildCellImage({ ...common, agentEntry, architecture });
    const packages = await buildPackageTree({ ...common, packages: ["busybox-static:arm64"] });
    cloud = stack.use(
      await createLocalCloud({
        owner: "tests",
        stateDir,
        imagesDir: path.join(cacheDir, "images"),
        namespace: "kiptarm",
        range: "198.18.48.0/22",
        internet: false,
        hostPorts: [registryPort],
        architectures: ["amd64", architecture],
      }),
    );
    const removeAll = async (): Promise<void> => {
      await cloud.terminateAll();
      await cloud.removeNetwork();
    };
    stack.defer(removeAll);
    await removeAll();
    await cloud.prepareNetwork();
    image = await cloud.resolveImage({}, architecture);
    const place = { address: cloud.hostAddress, port: registryPort };
    const program = path.join(packages, "bin/busybox");
    registry = stack.use(
      await startBusyboxRegistry("/bin/busybox", place, { program, architecture }),
    );
    cell = stack.use(await newCell("arm"));
  });
  after(async () => {
    await stack.disposeAsync();
  });

  test("run, with a probe, logs, exec, a terminal and a shared process namespace", async () => {
    const script =
      "trap 'echo stopped; exit 0' TERM; echo on $(uname -m); while :; do sleep 1; done";
    await putPod(cell, script, {
      shareProcessNamespace: true,
      containers: [
        container("main", {
          image: `${registry.host}/busybox:1`,
          command: ["sh", "-c", script],
          seccomp: "RuntimeDefault",
          readinessProbe: {
            exec: { command: ["test", "-d", "/proc"] },
            periodSeconds: 1,
            timeoutSeconds: 60,
          },
        }),
      ],
    });
    await untilReported(cell, ({ containers }) => containers[0]?.ready === true);
    assert.equal(await logOf(cell), "on aarch64\n");
    assert.equal((await run(cell, ["uname", "-m"])).out, "aarch64\n");
    const input = "k".repeat(100_000);
    assert.equal((await run(cell, ["wc", "-c"], { input })).out.trim(), "100000");
    assert.equal((await shell(cell, "exit 3")).code, 3);
    assert.match((await run(cell, ["tty"], { tty: true })).out, /^\/dev\//);
    // The first process is the program that holds the namespace, which is machine code for this architecture.
    assert.doesNotMatch((await run(cell, ["cat", "/proc/1/comm"])).out, /^sh$/m);
  });

  test("make the system calls that the profile RuntimeDefault allows, and no others", async () => {
    assert.match((await run(cell, ["cat", "/proc/self/status"])).out, /^Seccomp:\t2$/m);
    const denied = await run(cell, ["unshare", "-U", "true"]);
    assert.notEqual(denied.code, 0);
    assert.match(denied.err, /Operation not permitted/);
    assert.equal((await shell(cell, "mkdir /tmp/a && mv /tmp/a /tmp/b && rmdir /tmp/b")).code, 0);
  });

  test("end when they are asked to", async () => {
    await cell.ask(async (agent) => await agent.deletePod(60));
    const report = await untilReported(cell, (one) => one.isReleased === true);
    assert.equal(report.phase, "Succeeded", JSON.stringify(report));
    assert.match(await logOf(cell), /\nstopped\n$/);
  });

  test("have users of their own with hostUsers false", async () => {
    await using other = await newCell("users");
    await putPod(other, "cat /proc/self/uid_map; id -u", {
      restartPolicy: "Never",
      hostUsers: false,
    });
    const report = await untilReported(other, (one) => one.isReleased === true);
    assert.equal(report.phase, "Succeeded", JSON.stringify(report));
    const [inside, outside, count, id] = (await logOf(other)).trim().split(/\s+/);
    assert.deepEqual([inside, count, id], ["0", "65536", "0"]);
    assert.ok(Number(outside) > 0);
  });

  interface RealCell extends AsyncDisposable {
    readonly instance: Instance;
    /**
     * Runs `work` with a connection to the agent. Repeats it with a new connection if that breaks, because an emulated agent
     * may be busy for longer than a client waits.
     */
    readonly ask: <T>(work: (agent: AgentClient) => Promise<T>) => Promise<T>;
  }

  async function newCell(name: string): Promise<RealCell> {
    const wanted = { name, image, instanceType: "local-arm64.micro" };
    const { instance, access } = await launchCell(cloud, authority, wanted);
    const { id } = instance;
    const connect = async (): Promise<AgentClient> => {
      const signal = AbortSignal.timeout(startLimitMs);
      return await waitForAgent({ ...access, logger: silentLogger, signal });
    };
    const ask = async <T>(work: (agent: AgentClient) => Promise<T>): Promise<T> => {
      const until = performance.now() + startLimitMs;
      for (;;) {
        try {
          await using agent = await connect();
          return await work(agent);
        } catch (error) {
          const mayRepeat = AgentError.is(error, "AGENT_UNREACHABLE") && performance.now() < until;
          if (mayRepeat) continue;
          console.log(await cloud.consoleOutput(id, 8000));
          throw error;
        }
      }
    };
    return { instance, ask, [Symbol.asyncDispose]: async () => await cloud.terminate(id) };
  }

  async function putPod(
    { ask, instance }: RealCell,
    script: string,
    changes: Partial<DesiredPod>,
  ): Promise<void> {
    const main = container("main", {
      image: `${registry.host}/busybox:1`,
      command: ["sh", "-c", script],
    });
    const pod = desiredPod({
      podIp: instance.podIp ?? "",
      containers: [main],
      registries: [{ host: registry.host, endpoint: registry.endpoint }],
      ...changes,
    });
    await ask(async (agent) => await agent.putPod(pod));
  }

  function limit(): AbortSignal {
    return AbortSignal.timeout(podLimitMs);
  }

  async function untilReported(
    { ask }: RealCell,
    isWanted: (report: PodReport) => boolean,
  ): Promise<PodReport> {
    return await ask(async (agent) => {
      let last: PodReport | undefined;
      for await (const report of agent.status(limit())) {
        last = report;
        if (isWanted(report)) return report;
      }
      throw new Error(`Not reported; the last report was ${JSON.stringify(last)}`);
    });
  }

  async function run(
    { ask }: RealCell,
    command: readonly string[],
    { tty = false, input = "" }: { readonly tty?: boolean; readonly input?: string } = {},
  ) {
    return await ask(async (agent) => {
      const [stdout, stderr] = [new PassThrough(), new PassThrough()];
      const stdin = tty ? undefined : Readable.from([Buffer.from(input)]);
      const streams = { tty, stdin, stdout, stderr: tty ? undefined : stderr };
      const [exit, out, err] = await Promise.all([
        agent.exec("main", command, streams, limit()),
        text(stdout),
        tty ? "" : text(stderr),
      ]);
      return { out, err, code: exit.exitCode };
    });
  }

  async function shell(of: RealCell, script: string) {
    return await run(of, ["sh", "-c", script]);
  }

  async function logOf({ ask }: RealCell): Promise<string> {
    return await ask(async (agent) => {
      let all = "";
      for await (const chunk of await agent.logs("main", {}, limit())) all += String(chunk);
      return all;
    });
  }
});
