import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { request } from "node:https";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { acquireFileLock, runCommand } from "@kip/base";
import {
  obtainBinaries,
  startControlPlane,
  type Binaries,
  type ControlPlane,
  type ProgramExit,
} from "@kip/control-plane";
import { temporaryFolder, eventually } from "@kip/testing";
import { ControlPlaneError } from "../src/errors.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
let binaries: Binaries;
const temporary = temporaryFolder();
const directory = temporary.path;
const exits: ProgramExit[] = [];

before(async () => {
  binaries = await obtainBinaries({ cacheDir, onProgress: (line) => console.log(line) });
});
after(() => temporary.remove());

describe("a running control plane", () => {
  let controlPlane: ControlPlane;
  before(async () => (controlPlane = await start()));
  after(async () => await controlPlane.stop());

  it("is a Kubernetes whose controllers and scheduler work", async () => {
    const kubectl = kubectlOf(controlPlane.adminKubeconfig);
    assert.match(await kubectl(["version"]), new RegExp(`Server Version: ${binaries.version}`));
    await kubectl(["create", "deployment", "web", "--image=none.invalid/none", "--replicas=2"]);
    const labelled = ["pod", "-l", "app=web", "--timeout=60s"];
    await kubectl(["wait", "--for=create", ...labelled]);
    // There is no node yet, so the scheduler reports this.
    await kubectl(["wait", "--for=condition=PodScheduled=False", ...labelled]);
    assert.deepEqual(Object.keys(controlPlane.pids), [
      "etcd",
      "kube-apiserver",
      "kube-controller-manager",
      "kube-scheduler",
    ]);
  });

  it("gives kip what a virtual kubelet needs, and no more", async () => {
    const kip = kubectlOf(controlPlane.kipKubeconfig);
    const may = async (verb: string, name: string, namespace = "default") => {
      const [resource = "", group = ""] = name.split(/\.(.*)/);
      const [kind, subresource = ""] = resource.split("/");
      const resourceAttributes = { verb, group, resource: kind, subresource, namespace };
      const review = { kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
      const input = JSON.stringify({ apiVersion: "authorization.k8s.io/v1", ...review });
      const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
      const answer = await kip(["create", "--raw", path, "-f", "-"], input);
      return (JSON.parse(answer) as { status: { allowed: boolean } }).status.allowed;
    };
    assert.equal(await may("create", "nodes"), true);
    assert.equal(await may("patch", "pods/status"), true);
    assert.equal(await may("create", "leases.coordination.k8s.io", "kube-node-lease"), true);
    assert.equal(await may("create", "subjectaccessreviews.authorization.k8s.io"), true);
    assert.equal(await may("create", "cells.kip.elotl.co"), true);
    assert.equal(await may("create", "secrets", "kip-system"), true);
    assert.equal(await may("create", "secrets"), false);
    // What the library and kip need, and what they do not need. deploy/ has the same rules.
    const unused = [
      ["delete", "nodes"],
      ["delete", "leases.coordination.k8s.io"],
      ["patch", "pods"],
      ["create", "events.events.k8s.io"],
      ["list", "serviceaccounts"],
      ["list", "persistentvolumes"],
      ["list", "persistentvolumeclaims"],
      ["list", "csidrivers.storage.k8s.io"],
      ["list", "storageclasses.storage.k8s.io"],
      ["list", "volumeattachments.storage.k8s.io"],
    ] as const;
    for (const [verb, name] of unused)
      assert.equal(await may(verb, name), false, `${verb} ${name}`);
    assert.equal(await may("create", "pods"), false);
    assert.equal(await may("create", "clusterrolebindings.rbac.authorization.k8s.io"), false);
    assert.equal(await may("impersonate", "users"), false);
  });

  it("issues server certificates for kubelets", async () => {
    const pair = await controlPlane.issueKubeletCertificate("kip", ["198.18.0.1"]);
    const certificate = new X509Certificate(pair.certificate);
    assert.ok(certificate.verify(new X509Certificate(controlPlane.ca).publicKey));
    assert.equal(certificate.checkIP("198.18.0.1"), "198.18.0.1");
  });

  it("answers only clients with a certificate, also at an address that it is exposed at", async () => {
    assert.equal(await statusOf(controlPlane, "127.0.0.1"), 401);
    await assert.rejects(statusOf(controlPlane, "127.0.0.2"));
    {
      await using _exposed = await controlPlane.exposeAt("127.0.0.2");
      assert.equal(await statusOf(controlPlane, "127.0.0.2"), 401);
    }
    await assert.rejects(statusOf(controlPlane, "127.0.0.2"));
  });

  it("starts a program again that ends unasked", async () => {
    exits.length = 0;
    const killed = controlPlane.pids["kube-scheduler"];
    assert.ok(killed !== undefined);
    process.kill(killed, "SIGKILL");
    // The new process is the only sign of a restart.
    await eventually(() => controlPlane.pids["kube-scheduler"] !== undefined && exits.length > 0);
    assert.notEqual(controlPlane.pids["kube-scheduler"], killed);
    assert.equal(exits[0]?.program, "kube-scheduler");
    assert.match(exits[0].reason, /^kube-scheduler was ended by SIGKILL/);
  });
});

describe("startControlPlane()", () => {
  it("keeps objects, certificates and port for the next start", async () => {
    const first = await start();
    await kubectlOf(first.adminKubeconfig)(["create", "namespace", "kept"]);
    await first.stop();
    await using second = await start();
    assert.equal(second.server, first.server);
    assert.equal(second.ca, first.ca);
    assert.equal(second.admin.certificate, first.admin.certificate);
    await kubectlOf(second.adminKubeconfig)(["get", "namespace", "kept"]);
  });

  it("leaves no process behind, neither after stop() nor after its own end by SIGKILL", async () => {
    const controlPlane = await start();
    const pids = Object.values(controlPlane.pids);
    await controlPlane.stop();
    assert.deepEqual(await running(pids), []);

    const script = `
      import { startControlPlane, binariesIn } from "@kip/control-plane";
      const controlPlane = await startControlPlane({
        binaries: binariesIn(process.argv[1]), dataDir: process.argv[2], logDir: process.argv[3], port: 0 });
      console.log(JSON.stringify(Object.values(controlPlane.pids)));`;
    const child = spawn(
      process.execPath,
      ["--input-type=module", "-e", script, binaries.directory, ...Object.values(directories())],
      { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] },
    );
    const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    child.kill("SIGKILL");
    await once(child, "exit");
    const orphans = JSON.parse(line) as number[];
    assert.equal(orphans.length, 4);
    // They are no longer children of this process, so no event reports their end.
    await eventually(async () => (await running(orphans)).length === 0);
    // The lock is also released, because its process reads from the one that was killed.
    const lock = await acquireFileLock(join(directories().dataDir, "lock"));
    await lock[Symbol.asyncDispose]();
    await using again = await start();
    assert.equal(Object.keys(again.pids).length, 4);
  });

  it("refuses a second start in the same directory, and a port that is taken", async () => {
    await using _controlPlane = await start();
    await assert.rejects(start(), (error) => ControlPlaneError.is(error, "CONTROL_PLANE_IN_USE"));

    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    assert.ok(typeof address === "object" && address !== null);
    const own = (await readFile("/proc/self/comm", "utf8")).trim();
    const elsewhere = { dataDir: join(directory, "other"), logDir: join(directory, "other-log") };
    await assert.rejects(
      startControlPlane({ binaries, ...elsewhere, port: address.port }),
      (error) => {
        assert.ok(ControlPlaneError.is(error, "PORT_TAKEN"));
        assert.match(error.message, new RegExp(`port ${address.port}: the program "${own}"`));
        assert.match(error.remedy ?? "", /--port/);
        return true;
      },
    );
    server.close();
  });

  it("says why a program does not start, and leaves none running", async () => {
    const elsewhere = { dataDir: join(directory, "broken"), logDir: join(directory, "broken-log") };
    await assert.rejects(
      startControlPlane({ binaries, ...elsewhere, port: 0, serviceCidr: "10.96.0.0/40" }),
      (error) => {
        assert.ok(ControlPlaneError.is(error, "CONTROL_PLANE_START_FAILED"));
        assert.match(error.message, /kube-\S+ ended with exit code 1: .*cidr/i);
        return true;
      },
    );
    await assert.rejects(runCommand("pgrep", ["-f", elsewhere.dataDir]));
  });

  it("stops a start when its signal aborts", async () => {
    const elsewhere = { dataDir: join(directory, "given-up"), logDir: join(directory, "log") };
    const signal = AbortSignal.timeout(300);
    await assert.rejects(startControlPlane({ binaries, ...elsewhere, port: 0, signal }), {
      name: "TimeoutError",
    });
    await assert.rejects(runCommand("pgrep", ["-f", elsewhere.dataDir]));
  });
});

function directories() {
  return { dataDir: join(directory, "data"), logDir: join(directory, "log") };
}

async function start(): Promise<ControlPlane> {
  const onExit = (exit: ProgramExit): void => void exits.push(exit);
  return await startControlPlane({ binaries, ...directories(), port: 0, onExit });
}

function kubectlOf(kubeconfig: string) {
  return async (args: readonly string[], input = ""): Promise<string> => {
    const all = [`--kubeconfig=${kubeconfig}`, ...args];
    const options = { env: { HOME: directory }, input };
    return (await runCommand(binaries.paths.kubectl, all, options)).stdout;
  };
}

async function statusOf(controlPlane: ControlPlane, address: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const { ca, port } = controlPlane;
  request({ host: address, servername: "localhost", port, path: "/api", ca, agent: false })
    .on("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    })
    .on("error", reject)
    .end();
  return await promise;
}

async function running(pids: readonly number[]): Promise<number[]> {
  const states = await Promise.all(
    pids.map(async (pid) => await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "gone) Z")),
  );
  return pids.filter((_pid, index) => !/\) Z/.test(states[index] ?? ""));
}
