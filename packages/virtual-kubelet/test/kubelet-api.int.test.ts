// kubectl and kube-apiserver, both real, against the kubelet API; the containers are local processes.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { findRelease, pinned } from "@kip/control-plane";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import type { Pod } from "@kip/k8s-types";
import { startKubeletApi, type RunningKubeletApi } from "../src/kubelet-api/index.ts";
import { ProcessProvider } from "./process-provider.ts";
import { adminTls } from "./support/admin-tls.ts";
import { WebSocketTestClient } from "./websocket-test-client.ts";

const address = "127.0.0.1";
const tenMegabytes = randomBytes(10_000_000);

interface Ended {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

const version = process.env["KIP_KUBERNETES_VERSION"];
const { kubernetes } = version === undefined ? pinned : findRelease(version);
const knowsFeatures = Number(kubernetes.split(".")[1]) >= 36;

describe("kubelet API behind kube-apiserver", { timeout: 280_000 }, () => suite());
// An API server that is configured so speaks WebSocket to the kubelet, where it would translate to SPDY.
if (knowsFeatures)
  describe("kubelet API behind kube-apiserver, by WebSocket", { timeout: 280_000 }, () => {
    suite(["ExtendWebSocketsToKubelet"]);
  });

function suite(declaredFeatures: readonly string[] = []): void {
  let controlPlane: SharedControlPlane;
  let api: RunningKubeletApi;
  let provider: ProcessProvider;
  let folder: string;
  let namespace: string;
  let node: string;

  before(async () => {
    controlPlane = await sharedControlPlane();
    folder = await mkdtemp(join(tmpdir(), "kip-kubelet-api-"));
    await mkdir(join(folder, "container"));
    namespace = await controlPlane.createNamespace("kubelet-api");
    node = `node-${namespace}`;
    const pod = await createPod("p");
    provider = new ProcessProvider(pod, join(folder, "container"));
    api = await startKubeletApi({
      host: address,
      port: 0,
      ...(await controlPlane.issueKubeletCertificate(node, [address])),
      clientCa: controlPlane.ca,
      handlers: provider,
      logger: silentLogger,
      clock: systemClock,
    });
    await apply({ apiVersion: "v1", kind: "Node", metadata: { name: node } });
    await patchStatus("node", node, {
      addresses: [{ type: "InternalIP", address }],
      daemonEndpoints: { kubeletEndpoint: { Port: api.port } },
      ...(declaredFeatures.length > 0 && { declaredFeatures }),
    });
  });

  after(async () => {
    await kubectl("delete", "pod", "p", "--force", "--grace-period=0");
    await kubectl("delete", "node", node);
    await kubectl("delete", "namespace", namespace, "--wait=false");
    await api[Symbol.asyncDispose]();
    await controlPlane[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  it("logs: all, the last ones, none, followed", async () => {
    const lines = Array.from({ length: 10 }, (_, index) => `line ${index + 1}\n`);
    assert.equal((await kubectl("logs", "p")).stdout.toString(), lines.join(""));
    assert.equal((await kubectl("logs", "p", "--tail=2")).stdout.toString(), "line 9\nline 10\n");
    assert.equal((await kubectl("logs", "p", "--tail=0")).stdout.toString(), "");
    await kubectl("logs", "p", "--timestamps", "--since=60s", "--limit-bytes=5");
    const options = provider.logRequests.at(-1);
    assert.ok(options?.timestamps && options.limitBytes === 5 && !options.follow);
    assert.ok(Math.abs((options.sinceTimeMs ?? 0) + 60_000 - Date.now()) < 60_000);

    const left = provider.nextAbort.promise;
    const follower = start("logs", "-f", "p", "--tail=1");
    await seen(follower, "followed");
    follower.kill();
    await left;
    assert.equal(provider.aborted.at(-1), "logs");
  });

  it("logs: says in the kubelet's words why there are none", async () => {
    const { code, stderr } = await kubectl("logs", "p", "--previous");
    assert.equal(code, 1);
    assert.match(stderr, /BadRequest.*: previous terminated container "c" in pod "p" not found/);
  });

  it("exec: exit codes, both outputs, and a program that does not exist", async () => {
    const ok = await kubectl("exec", "p", "--", "sh", "-c", "echo out; echo err >&2");
    assert.deepEqual([ok.code, ok.stdout.toString(), ok.stderr], [0, "out\n", "err\n"]);
    const three = await kubectl("exec", "p", "--", "sh", "-c", "exit 3");
    assert.equal(three.code, 3);
    assert.match(three.stderr, /command terminated with exit code 3/);
    const missing = await kubectl("exec", "p", "--", "no-such-program");
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /error executing command in container: .*ENOENT/);
  });

  it("exec: a command of 900 KiB in the request line", async () => {
    const words = Array.from({ length: 7 }, () => "\n".repeat(43_000));
    const script = 'printf %s "$@" | wc -c';
    const { stdout, stderr } = await kubectl("exec", "p", "--", "sh", "-c", script, "sh", ...words);
    assert.equal(stdout.toString().trim(), String(7 * 43_000), stderr);
  });

  it("exec: 10 MB through stdin and back arrive whole", async () => {
    const digest = createHash("sha256").update(tenMegabytes).digest("hex");
    const sum = await kubectlWith(tenMegabytes, "exec", "-i", "p", "--", "sha256sum");
    assert.equal(sum.stdout.toString().split(" ")[0], digest);
    const back = await kubectlWith(tenMegabytes, "exec", "-i", "p", "--", "cat");
    assert.ok(back.stdout.equals(tenMegabytes));
  });

  it("exec: a program that ends before its input does keeps its output and exit code", async () => {
    const command = ["sh", "-c", "head -c 100; exit 4"];
    const ended = await kubectlWith(tenMegabytes, "exec", "-i", "p", "--", ...command);
    assert.equal(ended.code, 4);
    assert.ok(ended.stdout.equals(tenMegabytes.subarray(0, 100)));
  });

  it("exec: a terminal with its size, a new size, keys and an exit code", async () => {
    const fifo = join(folder, "resize");
    await runCommand("mkfifo", [fifo]);
    const exec = [controlPlane.kubectlPath, "--kubeconfig", controlPlane.kubeconfigPath];
    exec.push("-n", namespace, "exec", "-it", "p", "--", "sh");
    // One dimension only: of two changes in a row, kubectl may drop the second.
    const resize = `(read _ < ${fifo}; stty cols 120 < /dev/tty) &`;
    const script = `stty cols 100 rows 40; ${resize} exec ${exec.join(" ")}`;
    const terminal = spawn("sh", ["-c", 'exec script -qec "$0" /dev/null', script], {
      env: { HOME: folder, PATH },
    });
    const ended = end(terminal);
    await seen(terminal, "size 100x40");
    // Listened for before it is asked for: it may come before the write is over.
    const resized = seen(terminal, "size 120x40");
    await writeFile(fifo, "now\n");
    await resized;
    terminal.stdin.write("abc");
    await seen(terminal, 'got "abc"');
    terminal.stdin.write("exit\r");
    const { code, stdout } = await ended;
    assert.match(stdout.toString(), /command terminated with exit code 5/);
    assert.equal(code, 5);
  });

  it("exec: stops the command when the client leaves", async () => {
    const left = provider.nextAbort.promise;
    const client = start("exec", "p", "--", "sh", "-c", "echo started; exec sleep 1000");
    await seen(client, "started");
    client.kill();
    await left;
    assert.equal(provider.aborted.at(-1), "exec");
  });

  it("exec: refuses a container that is not there before it opens anything", async () => {
    const { pod } = provider;
    provider.pod = { ...pod, spec: { containers: [{ name: "other" }] } };
    const { code, stderr } = await kubectl("exec", "p", "--", "true");
    provider.pod = pod;
    assert.equal(code, 1);
    assert.match(stderr, /container not found \("c"\)/);
  });

  it("attach: connects and ends with the input", async () => {
    const { code, stdout } = await kubectlWith(Buffer.from("hello\n"), "attach", "-i", "p");
    assert.equal(code, 0);
    assert.match(stdout.toString(), /attached\nhello/);
  });

  it("cp: a folder in and a file out", async () => {
    await mkdir(join(folder, "source", "deep"), { recursive: true });
    await writeFile(join(folder, "source", "big"), tenMegabytes);
    await writeFile(join(folder, "source", "deep", "small"), "small");
    await succeed("cp", join(folder, "source"), "p:copied");
    const small = join(folder, "container", "copied", "deep", "small");
    assert.equal(await readFile(small, "utf8"), "small");
    await succeed("cp", "p:copied/big", join(folder, "back"));
    assert.ok((await readFile(join(folder, "back"))).equals(tenMegabytes));
  });

  it("port-forward: 100 MB each way keep their checksum", async () => {
    await using forward = await echoThroughPortForward();
    const hundredMegabytes = Buffer.concat(Array.from({ length: 10 }, () => tenMegabytes));
    const answer = await fetch(forward.url, { method: "POST", body: hundredMegabytes });
    const digest = createHash("sha256");
    for await (const chunk of answer.body ?? []) digest.update(chunk);
    const sent = createHash("sha256").update(hundredMegabytes).digest("hex");
    assert.equal(digest.digest("hex"), sent);
  });

  it("port-forward: 50 connections at once, 2 MB each way", async () => {
    await using forward = await echoThroughPortForward();
    const body = tenMegabytes.subarray(0, 2_000_000);
    const together = Promise.withResolvers<void>();
    let begun = 0;
    const copies = Array.from({ length: 50 }, async () => {
      // Each sends a part, then waits until all have: so they are all open at one moment.
      const answer = await fetch(forward.url, {
        method: "POST",
        duplex: "half",
        body: (async function* () {
          yield body.subarray(0, 1000);
          if (++begun === 50) together.resolve();
          await together.promise;
          yield body.subarray(1000);
        })(),
      });
      return Buffer.from(await answer.arrayBuffer()).equals(body);
    });
    assert.deepEqual(await Promise.all(copies), Array(50).fill(true));
  });

  it("port-forward: a port without a listener is named", async () => {
    const forward = start("port-forward", "p", ":1");
    const line = await seen(forward, "Forwarding from 127.0.0.1:");
    const local = /127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    const named = seen(forward, "error forwarding port 1 to pod", "stderr");
    await assert.rejects(fetch(`http://127.0.0.1:${local}/`));
    await named;
    forward.kill();
  });

  /** kubectl port-forward to a web server that sends back what it gets. */
  async function echoThroughPortForward(): Promise<AsyncDisposable & { readonly url: string }> {
    const web = http.createServer((request, response) => void request.pipe(response));
    web.listen(0, address);
    await once(web, "listening");
    const { port } = web.address() as AddressInfo;
    const forward = start("port-forward", "p", `:${port}`);
    const line = await seen(forward, "Forwarding from 127.0.0.1:");
    const local = /127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    return {
      url: `http://127.0.0.1:${local}/`,
      [Symbol.asyncDispose]: async () => {
        forward.kill();
        await end(forward);
        web.closeAllConnections();
        web.close();
      },
    };
  }

  if (declaredFeatures.length > 0)
    it("is spoken to by WebSocket", async () => {
      const metrics = await succeed("get", "--raw", "/metrics");
      for (const subresource of ["exec", "attach", "portforward"]) {
        const name = "apiserver_websocket_streaming_requests_total";
        const labels = `proxy_type="proxied_to_kubelet",subresource="${subresource}"`;
        const sample = new RegExp(`^${name}\\{${labels}\\} [1-9]`, "m");
        assert.match(metrics, sample);
      }
    });

  it("WebSocket UIs: exec by the old protocols, which the API server passes on as they are", async () => {
    const script = encodeURIComponent("read line; echo got $line; echo err >&2; exit 6");
    const command = `command=sh&command=-c&command=${script}`;
    const path = `${podPath()}/exec?${command}&stdin=1&stdout=1&stderr=1&container=c`;
    for (const protocol of ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", "v5.channel.k8s.io"]) {
      const client = await webSocket(path, [protocol]);
      assert.equal(client.socket.protocol, protocol);
      client.send(0, "hello\n");
      await client.closed;
      assert.equal(client.received(1).toString(), "got hello\n");
      assert.equal(client.received(2).toString(), "err\n");
      assert.match(client.received(3).toString(), /"reason":"ExitCode","message":"6"/);
    }
    const terminal = await webSocket(`${podPath()}/exec?command=sh&stdin=1&stdout=1&tty=1`, [
      "v4.channel.k8s.io",
    ]);
    terminal.send(4, '{"Width":90,"Height":30}');
    await terminal.until(() => terminal.received(1).includes("size 90x30"));
    terminal.send(0, "exit\r");
    await terminal.closed;
    assert.match(terminal.received(3).toString(), /"ExitCode","message":"5"/);
  });

  it("WebSocket UIs: port-forward with its ports in the query", async () => {
    const echo = net.createServer((socket) => socket.pipe(socket));
    echo.listen(0, address);
    await once(echo, "listening");
    const { port } = echo.address() as AddressInfo;
    const client = await webSocket(`${podPath()}/portforward?ports=${port}`, ["v4.channel.k8s.io"]);
    client.send(0, "there and back");
    await client.until(() => client.received(0).includes("there and back"));
    assert.equal(client.received(0).readUInt16LE(), port);
    client.socket.close();
    await client.closed;
    echo.close();
  });

  function podPath(): string {
    return `/api/v1/namespaces/${namespace}/pods/p`;
  }

  /** A WebSocket to the API server, as its administrator. */
  async function webSocket(
    path: string,
    protocols: readonly string[],
  ): Promise<WebSocketTestClient> {
    const server = new URL(controlPlane.server);
    const tls = await adminTls(controlPlane);
    return await WebSocketTestClient.connect(Number(server.port), path, protocols, tls);
  }

  async function createPod(name: string): Promise<Pod> {
    const metadata = { name, namespace };
    const spec = { nodeName: node, containers: [{ name: "c", image: "none.invalid/none" }] };
    await apply({ apiVersion: "v1", kind: "Pod", metadata, spec });
    const running = { startedAt: "2026-01-01T00:00:00Z" };
    const status = { name: "c", image: "none", imageID: "none", ready: true, restartCount: 0 };
    await patchStatus("pod", name, {
      phase: "Running",
      containerStatuses: [{ ...status, state: { running } }],
    });
    return JSON.parse(await succeed("get", "pod", name, "-o", "json")) as Pod;
  }

  async function apply(object: object): Promise<void> {
    const ended = await kubectlWith(Buffer.from(JSON.stringify(object)), "create", "-f", "-");
    assert.equal(ended.code, 0, ended.stderr);
  }

  async function patchStatus(kind: string, name: string, status: object): Promise<void> {
    const patch = JSON.stringify({ status });
    await succeed("patch", kind, name, "--subresource=status", "-p", patch);
  }

  async function succeed(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await kubectl(...args);
    assert.equal(code, 0, stderr);
    return stdout.toString();
  }

  async function kubectl(...args: readonly string[]): Promise<Ended> {
    return await kubectlWith(Buffer.alloc(0), ...args);
  }

  async function kubectlWith(input: Buffer, ...args: readonly string[]): Promise<Ended> {
    const child = start(...args);
    child.stdin?.on("error", () => {}); // kubectl may end before it has read everything
    child.stdin?.end(input);
    return await end(child);
  }

  function start(...args: readonly string[]): ChildProcess {
    const where = ["--kubeconfig", controlPlane.kubeconfigPath, "-n", namespace];
    return spawn(controlPlane.kubectlPath, [...where, ...args], { env: { HOME: folder, PATH } });
  }
}

const PATH = process.env["PATH"];

async function end(child: ChildProcess): Promise<Ended> {
  const stdout: Buffer[] = [];
  child.stdout?.on("data", (chunk: Buffer) => stdout.push(chunk));
  const [stderr, [code]] = await Promise.all([
    child.stderr ? text(child.stderr) : "",
    once(child, "close") as Promise<[number | null]>,
  ]);
  return { code, stdout: Buffer.concat(stdout), stderr };
}

/** Waits until a process has printed a text; gives all it printed from now on. */
async function seen(
  child: ChildProcess,
  wanted: string,
  from: "stdout" | "stderr" = "stdout",
): Promise<string> {
  let output = "";
  await new Promise<void>((resolve, reject) => {
    child[from]?.on("data", (chunk: Buffer) => {
      output += String(chunk);
      if (output.includes(wanted)) resolve();
    });
    child.once("close", () => reject(new Error(`It ended without "${wanted}": ${output}`)));
  });
  return output;
}
