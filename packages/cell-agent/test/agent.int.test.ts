// The agent and its client over real TLS and HTTP/2 on loopback, with an in-memory runtime.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs/promises";
import os from "node:os";
import { once } from "node:events";
import net from "node:net";
import path from "node:path";
import tls from "node:tls";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { AgentClient, cellServerName, waitForAgent, type PodReport } from "@kip/agent-api";
import { silentLogger, type ProcessStreams } from "@kip/base";
import { startAgent } from "../src/index.ts";
import { Cell, credentials } from "./cell.ts";
import { container, desiredPod } from "./desired-pod.ts";
import { fakeDependencies } from "./fake-dependencies.ts";
import { cellName, issueIdentity, report, strangerCertificate } from "./test-cell.ts";

const hour = 3_600_000;
const limit = { timeout: 30_000 };

const { authority, identity, kip } = credentials;

async function text(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) parts.push(chunk);
  return Buffer.concat(parts).toString();
}

function portOf(server: net.Server): number {
  const address = server.address();
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

const never = new AbortController().signal;

describe("mutual TLS", limit, () => {
  it("lets kip in and tells it about the cell", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const info = await client.info();
    assert.equal(info.cellName, cellName);
    assert.equal(info.bootTimingsMs["userspace"], 1);
    assert.ok((info.bootTimingsMs["listening"] ?? 0) > 0);
  });

  it("refuses a client whose certificate is not from our authority", async () => {
    await using cell = await Cell.start();
    const pair = await strangerCertificate();
    await assert.rejects(cell.connect(pair), { message: /may refuse our certificate/ });
  });

  it("cells against each other: refuses a client of another name, such as another cell", async () => {
    await using cell = await Cell.start();
    const pair = await authority.issue({
      commonName: "cell-2",
      usages: ["client"],
      validMs: hour,
    });
    const client = await cell.connect(pair);
    await assert.rejects(client.info(), { code: "AGENT_FORBIDDEN" });
    await assert.rejects(client.putPod(desiredPod()), { code: "AGENT_FORBIDDEN" });
  });

  it("cells against each other: lets kip in beside however many connections that show no certificate", async () => {
    await using cell = await Cell.start();
    const before = await cell.connect();
    const { port } = cell.agent;
    const others = Array.from({ length: 100 }, () => net.connect(port, "127.0.0.1"));
    for (const socket of others) socket.on("error", () => {}); // ended by the agent
    try {
      await Promise.all(others.map(async (socket) => await once(socket, "connect")));
      await (await cell.connect()).info();
      await before.info();
    } finally {
      for (const socket of others) socket.destroy();
    }
  });

  it("does not take one cell for another", async () => {
    await using cell = await Cell.start();
    await assert.rejects(cell.connect({ cellName: "cell-2" }), { code: "AGENT_IDENTITY_INVALID" });
  });

  it("reports an agent that is not there as unreachable and retryable", async () => {
    const cell = await Cell.start();
    const { port } = cell.agent;
    await cell[Symbol.asyncDispose]();
    const options = { address: "127.0.0.1", port, cellName, ca: authority.certificate, ...kip };
    await assert.rejects(AgentClient.connect({ ...options, logger: silentLogger }), {
      code: "AGENT_UNREACHABLE",
      retryable: true,
    });
  });

  it("uses a renewed identity for new connections, also after a restart", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putIdentity(await issueIdentity(authority));
    await (await cell.connect()).info();
    await assert.rejects(client.putIdentity({ ...identity, cellName: "cell-2" }), {
      code: "AGENT_REQUEST_INVALID",
    });
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    await (await cell.connect()).info();
  });
});

describe("the agent's TLS", limit, () => {
  it("is version 1.3 and no other, also after a renewal", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const negotiated = async (version: "TLSv1.2" | "TLSv1.3"): Promise<string | null> => {
      const socket = tls.connect({
        host: "127.0.0.1",
        port: cell.agent.port,
        ca: authority.certificate,
        cert: kip.certificate,
        key: kip.key,
        servername: cellServerName(cellName),
        ALPNProtocols: ["h2"],
        minVersion: version,
        maxVersion: version,
      });
      try {
        await once(socket, "secureConnect");
        return socket.getProtocol();
      } finally {
        socket.destroy();
      }
    };
    for (const when of ["before", "after"]) {
      await assert.rejects(negotiated("TLSv1.2"), /protocol version/, when);
      assert.equal(await negotiated("TLSv1.3"), "TLSv1.3", when);
      await client.putIdentity(await issueIdentity(authority));
    }
  });
});

describe("waitForAgent()", limit, () => {
  it("answers as soon as the agent listens", async () => {
    const cell = await Cell.start();
    const { port } = cell.agent;
    await cell[Symbol.asyncDispose]();
    const stop = new AbortController();
    const waiting = waitForAgent({
      address: "127.0.0.1",
      port,
      cellName,
      ca: authority.certificate,
      ...kip,
      logger: silentLogger,
      signal: stop.signal,
    });
    const directory = await fs.mkdtemp(path.join(os.tmpdir(), "kip-agent-"));
    const agent = await startAgent({
      identity,
      agentVersion: "0.1.0",
      stateDir: path.join(directory, "state"),
      runDir: path.join(directory, "run"),
      port,
      host: "127.0.0.1",
      logger: silentLogger,
      loadDependencies: async () => fakeDependencies(),
    });
    const client = await waiting;
    await client.info();
    await client[Symbol.asyncDispose]();
    await agent[Symbol.asyncDispose]();
    await fs.rm(directory, { recursive: true });
  });

  it("ends with its signal", async () => {
    const stop = new AbortController();
    const waiting = waitForAgent({
      address: "127.0.0.1",
      port: 1,
      cellName,
      ca: authority.certificate,
      ...kip,
      logger: silentLogger,
      signal: stop.signal,
    });
    stop.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
  });
});

describe("what an agent loads", limit, () => {
  it("comes after its first answer", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    assert.equal(cell.loads, 0);
    await client.info();
    await client.stats();
    await client.info();
    assert.equal(cell.loads, 1);
  });

  it("comes at once where there was a pod before", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    assert.equal(cell.loads, 2);
  });
});

describe("what an agent says of itself", limit, () => {
  it("is that its pod runs, from the first container on, and at once for the next agent", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    let isRunning = false;
    void cell.agent.running.then(() => (isRunning = true));
    await client.info();
    await cell.agent.ready;
    assert.equal(isRunning, false);
    await client.putPod(desiredPod());
    await cell.agent.running;
    assert.equal(cell.runtime.specs.size, 1);
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    await cell.agent.running;
  });
});

describe("a pod's life", limit, () => {
  it("runs a pod and reports it with the kubelet's events", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    const running = await report(client, (one) => one.phase === "Running");
    assert.equal(running.containers[0]?.ready, true);
    assert.match(running.containers[0]?.containerId ?? "", /^crun:\/\//);
    assert.deepEqual(
      running.events.map((event) => event.reason),
      ["Pulling", "Pulled", "Created", "Started"],
    );
    assert.deepEqual(
      running.events.map((event) => event.sequence),
      [1, 2, 3, 4],
    );
    const spec = [...cell.runtime.specs.values()][0];
    assert.deepEqual(spec?.args, ["/bin/app"]);
    assert.ok(spec?.env.includes("HOSTNAME=pod"));
    assert.ok(spec?.mounts.some((mount) => mount.destination === "/etc/hosts"));
  });

  it("takes the same pod again, and no other one", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await client.putPod(desiredPod());
    await assert.rejects(client.putPod(desiredPod({ uid: "uid-2" })), { code: "AGENT_OTHER_POD" });
    await report(client, (one) => one.phase === "Running");
    assert.deepEqual(cell.runtime.calls, ["create web", "start web"]);
  });

  it("tells which generation of its pod it has, also when it ignores an older one", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    assert.equal((await client.info()).podGeneration, undefined);
    assert.equal(await client.putPod(desiredPod({ generation: 5 })), 5);
    assert.equal(await client.putPod(desiredPod({ generation: 3 })), 5);
    assert.equal((await client.info()).podGeneration, 5);
  });

  it("refuses a document that is not a pod", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const wrong = { ...desiredPod(), containers: "none" } as never;
    await assert.rejects(client.putPod(wrong), { code: "AGENT_REQUEST_INVALID" });
    await assert.rejects(client.deletePod(0), { code: "AGENT_NO_POD" });
    const huge = desiredPod({ resolvConf: "x".repeat(9 * 1024 * 1024) });
    await assert.rejects(client.putPod(huge), { code: "AGENT_REQUEST_TOO_LARGE" });
  });

  it("runs init containers one after another before the others", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const initContainers = [container("one"), container("two")];
    await client.putPod(desiredPod({ initContainers }));
    const first = await report(client, (one) => one.initContainers[0]?.running !== undefined);
    assert.equal(first.phase, "Pending");
    assert.equal(first.containers[0]?.waiting?.reason, "PodInitializing");
    cell.runtime.exit("one", 0);
    await report(client, (one) => one.initContainers[1]?.running !== undefined);
    cell.runtime.exit("two", 0);
    const last = await report(client, (one) => one.phase === "Running");
    assert.equal(last.initContainers[0]?.terminated?.reason, "Completed");
    assert.deepEqual(
      cell.runtime.calls.filter((call) => call.startsWith("start")),
      ["start one", "start two", "start web"],
    );
  });

  it("completes a pod whose containers have ended well", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const sidecar = container("side", { restartPolicy: "Always" });
    await client.putPod(desiredPod({ restartPolicy: "Never", initContainers: [sidecar] }));
    await report(client, (one) => one.phase === "Running");
    cell.runtime.exit("web", 0);
    const done = await report(client, (one) => one.phase === "Succeeded");
    assert.equal(done.containers[0]?.terminated?.exitCode, 0);
    assert.ok(cell.runtime.calls.includes("SIGTERM side"));
  });

  it("fails a pod that fails, with the reason", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const web = container("web", { terminationMessagePolicy: "FallbackToLogsOnError" });
    await client.putPod(desiredPod({ restartPolicy: "Never", containers: [web] }));
    await report(client, (one) => one.phase === "Running");
    await cell.runtime.print("web", "no disk");
    cell.runtime.exit("web", 3);
    const done = await report(client, (one) => one.phase === "Failed");
    assert.equal(done.containers[0]?.terminated?.exitCode, 3);
    assert.equal(done.containers[0]?.terminated?.reason, "Error");
    assert.equal(done.containers[0]?.terminated?.message, "no disk\n");
  });

  it("restarts a container at once, then holds it back", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    cell.runtime.exit("web", 1);
    const isRestarted = (one: PodReport): boolean =>
      one.containers[0]?.restartCount === 1 && one.containers[0].running !== undefined;
    await report(client, isRestarted);
    cell.runtime.exit("web", 1);
    const held = await report(client, (one) => one.containers[0]?.waiting !== undefined);
    assert.equal(held.containers[0]?.waiting?.reason, "CrashLoopBackOff");
    assert.match(held.containers[0]?.waiting?.message ?? "", /^back-off 10s restarting failed/);
    assert.equal(held.containers[0]?.lastTerminated?.exitCode, 1);
    assert.equal(held.phase, "Running");
    assert.ok(held.events.some((event) => event.reason === "BackOff"));
  });

  it("says which image cannot be pulled", async () => {
    await using cell = await Cell.start();
    cell.missing.add("web");
    const client = await cell.connect();
    await client.putPod(desiredPod());
    const seen = await report(client, (one) => one.containers[0]?.waiting?.message !== undefined);
    assert.equal(seen.containers[0]?.waiting?.reason, "ErrImagePull");
    assert.match(seen.containers[0]?.waiting?.message ?? "", /Cannot find image/);
    assert.equal(seen.phase, "Pending");
    await client.deletePod(0);
    await report(client, (one) => one.phase === "Failed");
  });

  it("reports on a pod of whose containers more is said than a line may have", async () => {
    await using cell = await Cell.start();
    const message = "\u0001".repeat(10_000);
    cell.runtime.create = async () => await Promise.reject(new Error(message));
    const client = await cell.connect();
    const containers = Array.from({ length: 60 }, (_, n) => container(`c${n}`));
    await client.putPod(desiredPod({ containers }));
    await report(client, (one) =>
      one.containers.every(({ waiting }) => waiting?.reason === "CreateContainerError"),
    );
  });

  it("fails a pod whose command does not exist", async () => {
    await using cell = await Cell.start();
    const { RuntimeError } = await import("@kip/oci-runtime");
    cell.runtime.nextCreateError = new RuntimeError("CONTAINER_CREATE_FAILED", "no such file");
    const client = await cell.connect();
    await client.putPod(desiredPod({ restartPolicy: "Never" }));
    const seen = await report(client, (one) => one.phase === "Failed");
    assert.equal(seen.containers[0]?.terminated?.reason, "StartError");
    assert.equal(seen.containers[0]?.terminated?.startedAt, "1970-01-01T00:00:00Z");
    assert.equal(seen.containers[0]?.terminated?.exitCode, 128);
  });

  it("stops within the grace period, and sooner when asked again", async () => {
    await using cell = await Cell.start();
    cell.runtime.deadly = ["SIGKILL"];
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await client.deletePod(600);
    await report(client, (one) => one.events.some((event) => event.reason === "Killing"));
    await client.deletePod(0);
    const done = await report(client, (one) => one.phase === "Failed");
    assert.equal(done.containers[0]?.terminated?.exitCode, 137);
    assert.deepEqual(cell.runtime.calls.slice(2), ["SIGTERM web", "SIGKILL web"]);
  });

  it("lets a container end by its stop signal although the grace period is 0", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await client.deletePod(0);
    await report(client, (one) => one.isReleased === true);
    assert.deepEqual(cell.runtime.calls.slice(2), ["SIGTERM web"]);
  });

  it("stops each container once", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await client.deletePod(30);
    const ended = await report(client, (one) => one.isReleased === true);
    assert.equal(ended.events.filter(({ reason }) => reason === "Killing").length, 1);
  });

  it("reports each failed probe at once", async () => {
    await using cell = await Cell.start();
    cell.runtime.execute = async () => 1;
    const client = await cell.connect();
    const livenessProbe = { exec: { command: ["check"] }, failureThreshold: 100, periodSeconds: 1 };
    await client.putPod(desiredPod({ containers: [container("web", { livenessProbe })] }));
    const failures = (one: PodReport): number =>
      one.events.filter(({ reason }) => reason === "Unhealthy").length;
    await report(client, (one) => failures(one) === 2, { timeoutMs: 10_000 });
  });

  it("ends a pod that has run too long", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ activeDeadlineSeconds: 1 }));
    const done = await report(client, (one) => one.phase === "Failed");
    assert.equal(done.reason, "DeadlineExceeded");
  });

  it("counts the time that the pod has been active on cells before", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const active = { activeDeadlineSeconds: 600, activeForMs: 599_500 };
    await client.putPod(desiredPod({ ...active, generation: 1 }));
    await client.putPod(desiredPod({ ...active, generation: 2 }));
    const done = await report(client, (one) => one.phase === "Failed");
    assert.equal(done.reason, "DeadlineExceeded");
  });

  it("shows new files of a volume when the pod is changed", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const volume = (data: string) => ({
      name: "config",
      kind: "files" as const,
      files: [{ path: "a.txt", data: Buffer.from(data).toString("base64"), mode: 0o644 }],
    });
    const web = container("web", { mounts: [{ name: "config", mountPath: "/config" }] });
    await client.putPod(desiredPod({ containers: [web], volumes: [volume("one")] }));
    await report(client, (one) => one.phase === "Running");
    const mount = [...cell.runtime.specs.values()][0]?.mounts.find(
      (one) => one.destination === "/config",
    );
    const file = path.join(mount?.source ?? "", "a.txt");
    assert.equal(await fs.readFile(file, "utf8"), "one");
    const changed = desiredPod({ containers: [web], volumes: [volume("two")], generation: 2 });
    await client.putPod(changed);
    const isNew = async (): Promise<boolean> => (await fs.readFile(file, "utf8")) === "two";
    // The agent does not report when files have arrived, so this checks until they have.
    for (let tries = 0; tries < 500 && !(await isNew()); tries++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    assert.ok(await isNew());
  });
});

describe("an agent that is started again", limit, () => {
  it("takes its running containers over and starts none twice", async () => {
    await using cell = await Cell.start();
    await (await cell.connect()).putPod(desiredPod());
    await report(await cell.connect(), (one) => one.phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    const client = await cell.connect();
    const seen = await report(client, (one) => one.containers[0]?.ready === true);
    assert.equal(seen.phase, "Running");
    assert.equal(seen.containers[0]?.restartCount, 0);
    assert.deepEqual(cell.runtime.calls, ["create web", "start web"]);
    cell.runtime.exit("web", 1);
    await report(client, (one) => one.containers[0]?.restartCount === 1);
  });

  it("notices what ended meanwhile", async () => {
    await using cell = await Cell.start();
    await (await cell.connect()).putPod(desiredPod({ restartPolicy: "Never" }));
    await report(await cell.connect(), (one) => one.phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    cell.runtime.exit("web", 7);
    await cell.startAgent();
    const client = await cell.connect();
    const seen = await report(client, (one) => one.phase === "Failed");
    assert.equal(seen.containers[0]?.terminated?.exitCode, 7);
  });

  it("notices what ends while it looks at what is there", async () => {
    await using cell = await Cell.start();
    await (await cell.connect()).putPod(desiredPod({ restartPolicy: "Never" }));
    await report(await cell.connect(), (one) => one.phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    const list = cell.runtime.list.bind(cell.runtime);
    cell.runtime.list = async () => {
      const states = await list();
      cell.runtime.exit("web", 7);
      // The runtime reports the end before it returns what it saw earlier.
      await new Promise((resolve) => setTimeout(resolve, 10));
      return states;
    };
    await cell.startAgent();
    const client = await cell.connect();
    const seen = await report(client, (one) => one.phase === "Failed");
    assert.equal(seen.containers[0]?.terminated?.exitCode, 7);
  });

  it("removes what is left of a run whose end it had noted", async () => {
    await using cell = await Cell.start();
    await (await cell.connect()).putPod(desiredPod({ restartPolicy: "Never" }));
    await report(await cell.connect(), (one) => one.phase === "Running");
    const folder = path.join(cell.directory, "state/containers");
    const [run = ""] = await fs.readdir(folder);
    cell.runtime.exit("web", 7);
    await report(await cell.connect(), (one) => one.phase === "Failed");
    await cell.agent[Symbol.asyncDispose]();
    // As if the agent had been killed in between.
    const statePath = path.join(cell.directory, "run/pod-state.json");
    const state = JSON.parse(await fs.readFile(statePath, "utf8")) as object;
    await fs.writeFile(statePath, JSON.stringify({ ...state, isReleased: false }));
    await fs.mkdir(path.join(folder, run, "upper"), { recursive: true });
    await cell.startAgent();
    await (await cell.connect()).info();
    await cell.agent.ready;
    assert.deepEqual(await fs.readdir(folder), []);
  });

  it("goes on when a container that it does not know cannot be removed", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    const { labels, logDirectory } = cell.runtime.running("web");
    cell.runtime.states.set("stray", {
      id: "stray",
      labels,
      status: "running",
      logDirectory,
      createdAtMs: 0,
    });
    const remove = cell.runtime.remove.bind(cell.runtime);
    cell.runtime.remove = async (id) => {
      if (id === "stray") throw new Error("device or resource busy");
      await remove(id);
    };
    await cell.startAgent();
    const again = await cell.connect();
    await again.deletePod(0);
    await report(again, (one) => one.isReleased === true, { timeoutMs: 5000 });
  });

  it("forwards none of the cell's own ports before it knows the pod's network", async () => {
    await using server = net.createServer((socket) => socket.end("the cell's own"));
    await once(server.listen(0, "127.0.0.1"), "listening");
    await using cell = await Cell.start();
    const mount = { name: "settings", mountPath: "/settings" };
    await (
      await cell.connect()
    ).putPod(
      desiredPod({
        volumes: [{ name: "settings", kind: "files", files: [] }],
        containers: [container("web", { mounts: [mount] })],
      }),
    );
    await report(await cell.connect(), (one) => one.phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    // Nothing can be prepared with this.
    const place = path.join(cell.directory, "run/files/settings");
    await fs.rm(place, { recursive: true });
    await fs.writeFile(place, "");
    await cell.startAgent();
    const client = await cell.connect();
    await report(client, (one) => one.events.some(({ reason }) => reason === "FailedMount"));
    await assert.rejects(client.portForward(portOf(server), AbortSignal.timeout(20_000)), {
      code: "AGENT_CONTAINER_NOT_RUNNING",
    });
  });

  it("goes on ending a pod", async () => {
    await using cell = await Cell.start();
    cell.runtime.deadly = ["SIGKILL"];
    const before = await cell.connect();
    await before.putPod(desiredPod());
    await report(before, (one) => one.phase === "Running");
    await before.deletePod(600);
    await report(before, (one) => one.events.some((event) => event.reason === "Killing"));
    await cell.agent[Symbol.asyncDispose]();
    cell.runtime.deadly = ["SIGTERM", "SIGKILL"];
    await cell.startAgent();
    await report(await cell.connect(), (one) => one.phase === "Failed");
  });
});

describe("exec", limit, () => {
  async function running(cell: Cell): Promise<AgentClient> {
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    return client;
  }

  it("carries 10 MB to a process and back, and its exit code", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    cell.runtime.execute = async (options, streams) => {
      assert.deepEqual(options.command, ["cat", "-"]);
      assert.ok(streams.stdin && streams.stdout);
      await pipeline(streams.stdin, streams.stdout);
      return 3;
    };
    const data = Buffer.alloc(10_000_000, "kip ");
    const hash = createHash("sha256");
    const stdout = new PassThrough();
    const reading = (async () => {
      for await (const chunk of stdout as AsyncIterable<Buffer>) hash.update(chunk);
    })();
    const stdin = Readable.from([data.subarray(0, 5), data.subarray(5)]);
    const streams = { tty: false, stdin, stdout };
    assert.deepEqual(await client.exec("web", ["cat", "-"], streams, never), { exitCode: 3 });
    await reading;
    assert.equal(hash.digest("hex"), createHash("sha256").update(data).digest("hex"));
  });

  it("takes a command of a mebibyte, of any characters, before its input", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    const words = ["sh", "-c", '\n\u0001"é☃'.repeat(100_000), "", "x".repeat(300_000)];
    let got: readonly string[] = [];
    cell.runtime.execute = async ({ command }, { stdin, stdout }) => {
      got = command;
      if (stdin && stdout) await pipeline(stdin, stdout);
      return 0;
    };
    const stdout = new PassThrough();
    const streams = { tty: false, stdin: Readable.from([Buffer.from("input")]), stdout };
    const exit = client.exec("web", words, streams, never);
    assert.equal(await text(stdout), "input");
    assert.deepEqual(await exit, { exitCode: 0 });
    assert.deepEqual(got, words);
    await assert.rejects(client.exec("other", words, { tty: false }, never), {
      code: "AGENT_CONTAINER_UNKNOWN",
    });
  });

  it("refuses a command in frames that is too long, and serves the next", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    const words = ["x".repeat(9 * 1024 * 1024)];
    await assert.rejects(client.exec("web", words, { tty: false }, never), {
      code: "AGENT_PROCESS_FAILED",
      message: /command is too long/,
    });
    assert.deepEqual(await client.exec("web", ["x"], { tty: false }, never), { exitCode: 0 });
  });

  it("keeps standard output and error apart", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    cell.runtime.execute = async (_options, streams) => {
      streams.stdout?.write("out");
      streams.stderr?.write("err");
      return 0;
    };
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    const [exit, out, err] = await Promise.all([
      client.exec("web", ["x"], { tty: false, stdout, stderr }, never),
      text(stdout),
      text(stderr),
    ]);
    assert.deepEqual([exit.exitCode, out, err], [0, "out", "err"]);
  });

  it("passes sizes of the terminal on", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    let last: unknown;
    cell.runtime.execute = async (_options, streams) => {
      assert.equal(streams.tty, true);
      for await (const size of streams.resizes ?? []) {
        last = size;
        if (size.columns === 100) break;
      }
      return 0;
    };
    const resizes = (async function* () {
      yield { columns: 80, rows: 25 };
      yield { columns: 100, rows: 30 };
      await new Promise(() => {});
    })();
    await client.exec("web", ["top"], { tty: true, resizes }, never);
    assert.deepEqual(last, { columns: 100, rows: 30 });
  });

  it("tells why a command cannot run", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    cell.runtime.execute = async () => {
      throw new Error('exec "nope": not found');
    };
    await assert.rejects(client.exec("web", ["nope"], { tty: false }, never), {
      code: "AGENT_PROCESS_FAILED",
      message: /not found/,
    });
    await assert.rejects(client.exec("other", ["x"], { tty: false }, never), {
      code: "AGENT_CONTAINER_UNKNOWN",
    });
  });

  it("ends the process when the client goes away", async () => {
    await using cell = await Cell.start();
    const client = await running(cell);
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    cell.runtime.execute = async (_options, _streams, signal) => {
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      ended.resolve();
      throw signal.reason;
    };
    const stop = new AbortController();
    const running_ = client.exec("web", ["sleep"], { tty: false }, stop.signal);
    await begun.promise;
    stop.abort(new Error("gone"));
    await assert.rejects(running_, /gone/);
    await ended.promise;
  });
});

describe("logs", limit, () => {
  it("sends few pieces of a container that prints each line by itself, and stops reading with the client", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod(), never);
    await report(client, (one) => one.containers[0]?.running !== undefined);
    const log = new PassThrough();
    cell.runtime.logs = () => log;
    const begin = performance.now();
    const read = await client.logs("web", { follow: true }, never);
    let all = "";
    let pieces = 0;
    read.on("data", (piece: Buffer) => {
      all += piece.toString();
      pieces += 1;
    });
    read.on("error", () => {});
    const lines = Array.from({ length: 1000 }, (_, index) => `${index}\n`);
    for (const line of lines) {
      await new Promise((resolve) => setImmediate(resolve));
      log.write(line);
    }
    while (all.length < lines.join("").length) await once(read, "data");
    assert.equal(all, lines.join(""));
    const most = 52 + performance.now() - begin;
    assert.ok(pieces < most, `${pieces} pieces in ${most} ms`);
    const closed = new Promise((resolve) => log.once("close", resolve));
    read.destroy();
    await closed;
  });

  it("follows a log to its end, which its client then has read", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ restartPolicy: "Never" }));
    await report(client, (one) => one.phase === "Running");
    await cell.runtime.print("web", "one");
    const stream = await client.logs("web", { follow: true }, never);
    const reader = stream.iterator({ destroyOnReturn: false });
    assert.equal(String((await reader.next()).value), "one\n");
    await cell.runtime.print("web", "two");
    assert.equal(String((await reader.next()).value), "two\n");
    const read = client.outputRead;
    assert.ok(read);
    cell.runtime.exit("web", 0);
    assert.equal((await reader.next()).done, true);
    await read;
    assert.equal(client.outputRead, undefined);
  });

  it("fails in the middle, and does not end, when the connection is lost", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await cell.runtime.print("web", "one");
    const stream = await client.logs("web", { follow: true }, never);
    const reader = stream.iterator({ destroyOnReturn: false });
    assert.equal(String((await reader.next()).value), "one\n");
    const rest = reader.next();
    await cell.agent[Symbol.asyncDispose]();
    await assert.rejects(rest, { code: "ERR_STREAM_PREMATURE_CLOSE" });
  });

  it("says that there is no log where its files are gone", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await fs.rm(path.join(cell.directory, "state", "logs"), { recursive: true });
    await assert.rejects(client.logs("web", {}, never), {
      code: "AGENT_FAILED",
      message: /ENOENT/,
    });
  });

  it("keeps the log of the run before", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    await assert.rejects(client.logs("web", { previous: true }, never), {
      code: "AGENT_CONTAINER_UNKNOWN",
      message: /previous terminated container "web" in pod "pod" not found/,
    });
    await cell.runtime.print("web", "first run");
    cell.runtime.exit("web", 1);
    await report(
      client,
      ({ containers: [web] }) => web?.restartCount === 1 && web.running !== undefined,
    );
    assert.equal(await text(await client.logs("web", { previous: true }, never)), "first run\n");
    assert.equal(await text(await client.logs("web", {}, never)), "");
  });
});

describe("status", limit, () => {
  it("throws when the connection is lost", async () => {
    const cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.phase === "Running");
    const watching = (async () => {
      for await (const _ of client.status(never)) void cell.agent[Symbol.asyncDispose]();
    })();
    await assert.rejects(watching, { code: "AGENT_UNREACHABLE", retryable: true });
    await client.closed;
    await cell[Symbol.asyncDispose]().catch(() => {});
  });
});

describe("a connection of kip", limit, () => {
  // Of each, more than a window was written and not sent.
  const large = Buffer.alloc(3_000_000);

  it("takes requests after many clients have left in the middle of a log", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.containers[0]?.running !== undefined);
    cell.runtime.logs = () => Readable.from([large]);
    for (let count = 0; count < 20; count++) {
      const read = await client.logs("web", {}, never);
      await once(read, "readable");
      read.destroy();
    }
    assert.equal((await client.info()).cellName, cellName);
  });

  it("stays open when many commands end within seconds", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.containers[0]?.running !== undefined);
    for (let count = 0; count < 150; count++) {
      const streams = (): ProcessStreams => ({ tty: false, stdout: new PassThrough() });
      const execs = Array.from({ length: 10 }, () => client.exec("web", ["a"], streams(), never));
      for (const { exitCode } of await Promise.all(execs)) assert.equal(exitCode, 0);
    }
    assert.equal(client.isClosing, false);
  });

  it("takes requests after many servers have closed in the middle of an upload", async () => {
    await using server = net.createServer((socket) => socket.destroy());
    await once(server.listen(0, "127.0.0.1"), "listening");
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, (one) => one.containers[0]?.running !== undefined);
    for (let count = 0; count < 10; count++) {
      const forwarded = await client.portForward(portOf(server), never);
      forwarded.on("error", () => {});
      const closed = new Promise((resolve) => forwarded.once("close", resolve));
      forwarded.write(large);
      forwarded.resume();
      await closed;
    }
    assert.equal((await client.info()).cellName, cellName);
  });
});
