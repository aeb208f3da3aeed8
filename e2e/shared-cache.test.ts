// The image cache on an NFS server. It needs its own cluster, because all cells mount it.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { createConnection } from "node:net";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { parseReference, prefetchImage } from "@kip/oci-image";
import { isWholeRun } from "@kip/testing";
import {
  cluster,
  emptyFolder,
  eventually,
  kipCommand,
  shellPod,
  stateDir,
  type Cluster,
} from "./cluster.ts";

const server = "/usr/bin/ganesha.nfsd";
const reason = !isWholeRun
  ? "takes minutes: npm run test:e2e:all"
  : !existsSync(server) && "needs nfs-ganesha and nfs-ganesha-vfs";
const host = "198.18.240.1";
const nfsPort = 16_600;
const image = "kip.local/demo:latest";
const work = `${stateDir}-nfs`;
const clusterFlags = [
  `--state-dir=${work}/state`,
  `--kubeconfig=${work}/kubeconfig`,
  "--namespace-name=kip-e2e-nfs",
];

describe("the shared image cache on NFS", { skip: reason }, () => {
  let kube: Cluster;
  let nfs: ChildProcess | undefined;
  const cacheBlobs = (): string => path.join(work, "export/blobs/sha256");
  const registryBlobs = (): string =>
    path.join(work, "state/registry/data/docker/registry/v2/blobs");

  before(async () => {
    await emptyFolder(work, clusterFlags);
    await mkdir(path.join(work, "export"));
    const settings = path.join(work, "settings.yaml");
    const cache = { nfs: `${host}:/data`, options: [`port=${nfsPort}`] };
    writeFileSync(settings, JSON.stringify({ images: { cache } }));
    const flags = {
      status: clusterFlags,
      up: [
        ...clusterFlags,
        "--port=16643",
        "--registry-port=15643",
        "--network-range=198.18.240.0/22",
        "--service-range=10.112.0.0/16",
        "--node-name=kip-e2e-nfs",
        `--settings=${settings}`,
        // With a template that has the image, nothing would be pulled.
        "--templates=false",
        `--host-port=${nfsPort}`,
      ],
    };
    kube = await cluster("cache", flags);
    const registries = [{ host: "kip.local", endpoint: `http://${host}:15643` }];
    const fill = async () =>
      await prefetchImage(parseReference(image), path.join(work, "export"), { registries });
    assert.ok((await fill()).writtenBytes > 0);
    assert.equal((await fill()).writtenBytes, 0);
    nfs = await startNfs();
  });
  after(async () => {
    await stopNfs();
    await kipCommand("down", ...clusterFlags);
    await rm(work, { recursive: true });
  });

  async function startNfs(): Promise<ChildProcess> {
    const config = path.join(work, "ganesha.conf");
    const folder = path.join(work, "export");
    writeFileSync(
      config,
      `NFS_CORE_PARAM { NFS_Protocols = 4; NFS_Port = ${nfsPort}; Bind_addr = ${host}; Enable_NLM = false; Enable_RQUOTA = false; }
NFSV4 { Graceless = true; Only_Numeric_Owners = true; RecoveryBackend = fs; RecoveryRoot = ${work}/recovery; }
EXPORT { Export_Id = 1; Path = ${folder}; Pseudo = /data; Access_Type = RO; Squash = Root_Squash; Transports = TCP; SecType = sys; FSAL { Name = VFS; } }
`,
    );
    const files = [
      "-f",
      config,
      "-p",
      path.join(work, "ganesha.pid"),
      "-L",
      path.join(work, "ganesha.log"),
    ];
    const child = spawn(server, ["-F", ...files], { stdio: "ignore" });
    // The server does not report that it is ready, so poll.
    await eventually("the NFS server", async () => await answers(nfsPort));
    return child;
  }

  async function stopNfs(): Promise<void> {
    if (!nfs || nfs.exitCode !== null) return;
    const gone = once(nfs, "exit");
    nfs.kill("SIGKILL");
    await gone;
    nfs = undefined;
  }

  async function answers(port: number): Promise<boolean> {
    const socket = createConnection({ host, port });
    try {
      await once(socket, "connect");
      return true;
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  }

  /** Renames the registry's blobs, except the manifests. */
  function moveBlobs(from: string, to: string): void {
    for (const blob of readdirSync(cacheBlobs())) {
      const folder = path.join(registryBlobs(), "sha256", blob.slice(0, 2), blob);
      const file = path.join(folder, from);
      if (existsSync(file) && !readFileSync(file, "utf8").includes('"layers"'))
        renameSync(file, path.join(folder, to));
    }
  }

  async function runs(name: string): Promise<number> {
    const began = performance.now();
    await kube.apply(shellPod(name, "exec sleep 100000"));
    await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=300s");
    await kube.ok("exec", name, "--", "true");
    return Math.round(performance.now() - began);
  }

  it("fills a cell that the registry gives a manifest only", async (context) => {
    moveBlobs("data", "hidden");
    try {
      context.diagnostic(`${await runs("cached")} ms from the cache`);
    } finally {
      moveBlobs("hidden", "data");
    }
  });

  it("is not believed: what is altered or cut comes from the registry", async (context) => {
    const files = readdirSync(cacheBlobs()).map((name) => path.join(cacheBlobs(), name));
    const before = files.map((file) => [file, readFileSync(file)] as const);
    for (const [file, bytes] of before)
      writeFileSync(file, Buffer.from(bytes).fill(1, bytes.length - 20, bytes.length - 10));
    context.diagnostic(`${await runs("altered")} ms with an altered cache`);
    for (const [file, bytes] of before) writeFileSync(file, bytes.subarray(1));
    context.diagnostic(`${await runs("cut")} ms with a cut cache`);
    for (const [file, bytes] of before) writeFileSync(file, bytes);
  });

  it("costs no pod its start when its server is gone", async (context) => {
    await stopNfs();
    context.diagnostic(`${await runs("alone")} ms without a server`);
    // A cell that had mounted it also keeps running.
    await kube.ok("exec", "cached", "--", "true");
    await kube.apply(shellPod("again", "exec sleep 100000", {}, { imagePullPolicy: "Always" }));
    await kube.ok("wait", "--for=condition=Ready", "pod/again", "--timeout=300s");
  });
});
