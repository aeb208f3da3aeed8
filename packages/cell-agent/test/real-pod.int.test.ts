// The agent with real containers. Needs root on a machine with cgroup v2, crun, conmon, socat and a static busybox, like a
// cell. e2e/runtime-in-cell.test.ts runs it in a cell. Elsewhere it says what is missing.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { AgentClient, type DesiredPod, type PodReport } from "@kip/agent-api";
import { runCommand, silentLogger, type TerminalSize } from "@kip/base";
import { startBusyboxRegistry, type LayoutRegistry } from "@kip/testing";
import { container, desiredPod } from "./desired-pod.ts";
import { cellName, makeCredentials, report } from "./test-cell.ts";

const busybox = ["/bin/busybox", "/usr/bin/busybox"].find((file) => existsSync(file)) ?? "";
const missing = reasonToSkip();
const skip = missing && `${missing}; e2e/runtime-in-cell.test.ts runs it on a cell`;
const limit = { timeout: 600_000, skip };
const patience = { timeoutMs: 120_000 };
const never = new AbortController().signal;

function reasonToSkip(): string | false {
  if (process.getuid?.() !== 0) return "needs root";
  if (busybox === "") return "needs busybox-static";
  for (const file of ["/usr/bin/crun", "/usr/bin/conmon", "/usr/bin/socat"])
    if (!existsSync(file)) return `needs ${file}`;
  if (!existsSync("/sys/fs/cgroup/cgroup.controllers"))
    return "needs cgroup v2 at /sys/fs/cgroup (crun refuses hybrid cgroups)";
  return false;
}

const credentials = await makeCredentials();

let cells = 0;

/** A cell without its machine: an agent process with its own directories. */
class Cell implements AsyncDisposable {
  readonly stateDir = `/var/lib/kip-agent-${process.pid}-${++cells}`;
  readonly runDir = `/run/kip-agent-${process.pid}-${cells}`;
  client!: AgentClient;
  #agent: ChildProcess | undefined;

  async start(): Promise<void> {
    await fs.mkdir(this.runDir, { recursive: true });
    const file = `${this.runDir}/options.json`;
    const { stateDir, runDir } = this;
    const { identity } = credentials;
    await fs.writeFile(file, JSON.stringify({ identity, stateDir, runDir, port: 0 }));
    // Can also test a bundle from a cell image instead of the source.
    const source = new URL("agent-process.ts", import.meta.url).pathname;
    const script = process.env["KIP_TEST_AGENT"] ?? source;
    const agent = spawn(process.execPath, [script, file], { stdio: ["ignore", "pipe", "inherit"] });
    this.#agent = agent;
    const [port] = (await once(agent.stdout, "data")) as [Buffer];
    this.client = await AgentClient.connect({
      address: "127.0.0.1",
      port: Number(port.toString()),
      cellName,
      ca: credentials.authority.certificate,
      ...credentials.kip,
      connectTimeoutMs: 60_000,
      logger: silentLogger,
    });
  }

  async kill(): Promise<void> {
    const gone = this.#agent && once(this.#agent, "exit");
    this.#agent?.kill("SIGKILL");
    await gone;
    await this.client[Symbol.asyncDispose]();
  }

  /** Ends the pod, waits until it is gone and leaves nothing behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.deletePod(0).catch(() => {});
    const isOver = (one: PodReport): boolean => one.phase === "Succeeded" || one.phase === "Failed";
    await report(this.client, isOver, patience);
    // Nothing reports that everything is freed after the last report, so this checks until it is.
    const crun = `${this.runDir}/oci/programs/crun`; // for the whole life of a machine
    const isMounted = async (): Promise<boolean> => {
      const mounts = (await fs.readFile("/proc/self/mountinfo", "utf8")).replaceAll(crun, "");
      return mounts.includes(`${this.runDir}/`) || mounts.includes(`${this.stateDir}/`);
    };
    for (let tries = 0; tries < 600 && (await isMounted()); tries++)
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(await isMounted(), false, "a mount is left");
    await this.kill();
    await fs.rm(this.stateDir, { recursive: true, force: true });
    await runCommand("umount", [crun]);
    await fs.rm(this.runDir, { recursive: true, force: true });
  }
}

describe("a pod of real containers", limit, () => {
  let registry: LayoutRegistry;
  before(async () => {
    registry = await startBusyboxRegistry(busybox);
  });
  after(async () => {
    await registry[Symbol.asyncDispose]();
  });

  function pod(overrides: Partial<DesiredPod>): DesiredPod {
    const { host, endpoint } = registry;
    return desiredPod({ registries: [{ host, endpoint }], podIp: "10.88.0.2", ...overrides });
  }

  function shell(name: string, script: string, overrides = {}): DesiredPod["containers"][number] {
    const image = `${registry.host}/busybox:1`;
    return container(name, { image, command: ["sh", "-c", script], ...overrides });
  }

  const server = `mkdir -p /www; echo hello from $HOSTNAME > /www/index.html
echo serving; exec httpd -f -p 127.0.0.1:8080 -h /www`;

  it("serves its neighbour over localhost, logs, exec, port-forward, and an agent that is killed", async () => {
    await using cell = new Cell();
    await cell.start();
    const { client } = cell;
    const config = {
      name: "config",
      kind: "files" as const,
      files: [{ path: "motd", data: Buffer.from("welcome").toString("base64"), mode: 0o644 }],
    };
    await client.putPod(
      pod({
        volumes: [config, { name: "scratch", kind: "emptyDir" }],
        containers: [
          shell("web", server, {
            mounts: [
              { name: "config", mountPath: "/etc/motd", subPath: "motd", readOnly: true },
              { name: "scratch", mountPath: "/scratch" },
            ],
            readinessProbe: {
              exec: { command: ["wget", "-qO-", "http://127.0.0.1:8080/"] },
              periodSeconds: 1,
              timeoutSeconds: 10,
            },
          }),
          shell("other", "trap 'exit 0' TERM; while :; do sleep 1; done", {
            mounts: [{ name: "scratch", mountPath: "/scratch" }],
          }),
        ],
      }),
    );
    const seen = await report(client, (one) => one.containers.every((c) => c.ready), patience);
    assert.equal(seen.phase, "Running");
    console.log("timings", seen.timingsMs);
    assert.match(seen.containers[0]?.imageId ?? "", /busybox@sha256:/);

    // over localhost, from the other container
    assert.equal(
      await run(client, "other", "wget -qO- http://localhost:8080/"),
      "hello from pod\n",
    );
    assert.equal(await run(client, "web", "cat /etc/motd; echo > /scratch/x"), "welcome");
    assert.equal(await run(client, "other", "ls /scratch"), "x\n");
    assert.equal(
      await run(client, "web", "hostname; cat /etc/hosts"),
      "pod\n127.0.0.1 localhost\n",
    );

    // exit code
    const exit = await client.exec("web", ["sh", "-c", "exit 3"], { tty: false }, never);
    assert.equal(exit.exitCode, 3);

    // piped input of 10 MB arrives whole
    const data = Buffer.alloc(10_000_000, "kip and ");
    const stdout = new PassThrough();
    const [, sum] = await Promise.all([
      client.exec("web", ["md5sum"], { tty: false, stdin: Readable.from([data]), stdout }, never),
      text(stdout),
    ]);
    assert.equal(sum.split(" ")[0], createHash("md5").update(data).digest("hex"));

    // a terminal takes the client's size
    const screen = new PassThrough();
    const resizes = (async function* (): AsyncGenerator<TerminalSize> {
      yield { columns: 123, rows: 45 };
    })();
    const [, size] = await Promise.all([
      client.exec(
        "web",
        ["sh", "-c", "for i in 1 2 3 4 5; do stty size; sleep 1; done"],
        { tty: true, stdout: screen, resizes },
        never,
      ),
      text(screen),
    ]);
    assert.match(size, /45 123/);

    // port-forward reaches what listens on localhost only
    const forward = await client.portForward(8080, never);
    forward.end("GET / HTTP/1.0\r\n\r\n");
    assert.match(await text(forward), /hello from pod/);

    const stats = await client.stats();
    assert.ok((stats.containers["web"]?.memoryUsageBytes ?? 0) > 0);
    const [probes, ...others] = stats.probes ?? [];
    assert.deepEqual([probes?.container, probes?.kind, others], ["web", "Readiness", []]);
    assert.ok((probes?.successful ?? 0) > 0);
    console.log("agent", {
      rssMiB: Math.round(stats.agentRssBytes / 2 ** 20),
      cpuMs: Math.round(stats.agentCpuMicroseconds / 1000),
    });

    // an agent that is killed finds its containers again
    const ids = seen.containers.map((one) => one.containerId);
    await cell.kill();
    await cell.start();
    const again = await report(
      cell.client,
      (one) => one.containers.every((c) => c.ready),
      patience,
    );
    assert.deepEqual(
      again.containers.map((one) => [one.containerId, one.restartCount]),
      ids.map((id) => [id, 0]),
    );
    assert.equal(await run(cell.client, "other", "wget -qO- localhost:8080"), "hello from pod\n");
    assert.equal(await text(await cell.client.logs("web", {}, never)), "serving\n");
  });

  it("ends with its containers' exit codes, messages and the log of the run before", async () => {
    await using cell = new Cell();
    await cell.start();
    const { client } = cell;
    const script = `n=$(cat /data/n 2>/dev/null || echo 0); echo run $n; echo $((n+1)) > /data/n
[ $n = 0 ] && { echo -n bad > /dev/termination-log; exit 4; }; sleep 1000`;
    await client.putPod(
      pod({
        initContainers: [shell("first", "echo ready > /data/first", { mounts: data })],
        containers: [shell("web", script, { mounts: data })],
        volumes: [{ name: "data", kind: "emptyDir" }],
        terminationGracePeriodSeconds: 1,
      }),
    );
    const isBack = ({ containers: [web] }: PodReport): boolean =>
      web?.restartCount === 1 && web.running !== undefined;
    const seen = await report(client, isBack, patience);
    assert.equal(seen.initContainers[0]?.terminated?.reason, "Completed");
    assert.equal(seen.containers[0]?.lastTerminated?.exitCode, 4);
    assert.equal(seen.containers[0]?.lastTerminated?.message, "bad");
    assert.equal(await text(await client.logs("web", { previous: true }, never)), "run 0\n");
    await client.deletePod(1);
    const done = await report(client, (one) => one.phase === "Failed", patience);
    // sleep is process 1 of its container and ignores SIGTERM
    assert.equal(done.containers[0]?.terminated?.exitCode, 137);
  });

  it("gives a pod its volumes, identity, hooks, sidecar and probes", async () => {
    await using cell = new Cell();
    await cell.start();
    const { client } = cell;
    const mounts = [
      { name: "memory", mountPath: "/memory" },
      { name: "secret", mountPath: "/secret", readOnly: true },
      { name: "host", mountPath: "/host", subPath: "deep/er" },
    ];
    const file = (text: string, mode: number) => ({
      path: "key",
      data: Buffer.from(text).toString("base64"),
      mode,
    });
    const desired = pod({
      fsGroup: 2000,
      terminationGracePeriodSeconds: 20,
      volumes: [
        { name: "memory", kind: "emptyDir", medium: "Memory", sizeLimitBytes: 1024 * 1024 },
        { name: "secret", kind: "files", files: [file("s3cret", 0o400)] },
        {
          name: "host",
          kind: "hostPath",
          hostPath: `${cell.stateDir}/host`,
          hostPathType: "DirectoryOrCreate",
        },
      ],
      initContainers: [
        shell("side", "trap 'echo side >> /host/end; exit 0' TERM; while :; do sleep 1; done", {
          mounts,
          restartPolicy: "Always",
          startupProbe: { exec: { command: ["true"] }, periodSeconds: 1, timeoutSeconds: 10 },
        }),
      ],
      containers: [
        shell("web", "trap 'echo term >> /host/end; exit 0' TERM; while :; do sleep 1; done", {
          mounts,
          user: 1000,
          readOnlyRootFilesystem: true,
          dropCapabilities: ["ALL"],
          memoryBytesLimit: 64 * 1024 * 1024,
          postStart: { exec: { command: ["sh", "-c", "echo started > /memory/hook"] } },
          preStop: { exec: { command: ["sh", "-c", "echo hook >> /host/end"] } },
          livenessProbe: {
            exec: { command: ["test", "!", "-e", "/memory/dead"] },
            periodSeconds: 1,
            timeoutSeconds: 10,
            failureThreshold: 1,
          },
        }),
      ],
    });
    await fs.mkdir(`${cell.stateDir}/host/deep/er`, { recursive: true });
    await fs.chmod(`${cell.stateDir}/host/deep/er`, 0o777);
    await client.putPod(desired);
    await report(client, (one) => one.containers[0]?.ready === true, patience);
    const facts = "id -u; id -G; cat /secret/key; echo; touch /x 2>&1 | grep -o Read-only";
    const seen = await run(client, "web", `${facts}; cat /memory/hook; stat -c %g /memory/hook`);
    assert.equal(seen, "1000\n0 2000\ns3cret\nRead-only\nstarted\n2000\n");
    const full = await run(client, "web", "df -k /memory | tail -1 | awk '{print $2}'");
    assert.equal(full, "1024\n");

    // the running container sees changed files of a volume
    const [memory, , host] = desired.volumes;
    assert.ok(memory && host);
    const secret = { name: "secret", kind: "files" as const, files: [file("newer", 0o400)] };
    await client.putPod({ ...desired, generation: 2, volumes: [memory, secret, host] });
    await run(client, "web", "until [ $(cat /secret/key) = newer ]; do sleep 0.1; done");

    // a container that fails its liveness probe is killed and started again
    await run(client, "web", "touch /memory/dead");
    const killed = await report(client, (one) => one.containers[0]?.restartCount === 1, patience);
    assert.ok(
      killed.events.some(
        ({ reason, message }) =>
          reason === "Killing" &&
          message === "Container web failed liveness probe, will be restarted",
      ),
    );
    await client.deletePod(20);
    await report(client, (one) => one.phase === "Succeeded", patience);
    const end = await fs.readFile(`${cell.stateDir}/host/deep/er/end`, "utf8");
    assert.match(end, /^hook\nterm\n(.*\n)*side\n$/);
  });

  it("says why a command cannot run", async () => {
    await using cell = new Cell();
    await cell.start();
    const { client } = cell;
    const image = `${registry.host}/busybox:1`;
    await client.putPod(
      pod({
        restartPolicy: "Never",
        containers: [container("web", { image, command: ["/no/such/program"] })],
      }),
    );
    const done = await report(client, (one) => one.phase === "Failed", patience);
    assert.equal(done.containers[0]?.terminated?.reason, "StartError");
    assert.match(done.containers[0]?.terminated?.message ?? "", /\/no\/such\/program/);
  });
});

const data = [{ name: "data", mountPath: "/data" }];

async function run(client: AgentClient, name: string, script: string): Promise<string> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const [exit, out, err] = await Promise.all([
    client.exec(name, ["sh", "-c", script], { tty: false, stdout, stderr }, never),
    text(stdout),
    text(stderr),
  ]);
  assert.equal(exit.exitCode, 0, `${script}: ${err}`);
  return out;
}
