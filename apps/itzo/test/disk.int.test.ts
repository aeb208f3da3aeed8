// A disk in real cells of the local cloud. Needs root.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, suite, test } from "node:test";
import { type AgentClient, waitForAgent, type DesiredVolume, type PodReport } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { buildCellImage } from "@kip/cell-image";
import type { Instance } from "@kip/cloud";
import { createLocalCloud, type LocalCloud } from "@kip/cloud-local";
import { CertificateAuthority } from "@kip/pki";
import { startBusyboxRegistry, type LayoutRegistry } from "@kip/testing";
import { container, desiredPod } from "../../../packages/cell-agent/test/desired-pod.ts";
import { launchCell } from "./support/launch-cell.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const skip = process.getuid?.() === 0 ? false : "machines are started by root only";
const registryPort = 5079;
const hour = 3_600_000;
const MiB = 2 ** 20;

suite("a disk in real cells", { skip, timeout: 280_000 }, () => {
  const stack = new AsyncDisposableStack();
  let authority: CertificateAuthority;
  let stateDir = "";
  let cloud: LocalCloud;
  let image = "";
  let registry: LayoutRegistry;

  before(async () => {
    // A fixed path, so that a run finds what an interrupted one has left.
    stateDir = path.join(tmpdir(), "kip-test-disk");
    stack.defer(() => rmSync(stateDir, { recursive: true, force: true }));
    authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
    const agentEntry = path.join(import.meta.dirname, "../src/main.ts");
    image = (await buildCellImage({ cacheDir, agentEntry, onProgress: console.log })).id;
    cloud = stack.use(
      await createLocalCloud({
        owner: "tests",
        stateDir,
        imagesDir: path.join(cacheDir, "images"),
        namespace: "kiptdisk",
        range: "198.18.136.0/21",
        internet: false,
        hostPorts: [registryPort],
      }),
    );
    const removeAll = async (): Promise<void> => {
      await cloud.terminateAll();
      await cloud.removeNetwork();
    };
    stack.defer(removeAll);
    await removeAll();
    await cloud.prepareNetwork();
    const place = { address: cloud.hostAddress, port: registryPort };
    registry = stack.use(await startBusyboxRegistry("/bin/busybox", place));
  });
  after(async () => {
    await stack.disposeAsync();
  });

  test("is formatted once, holds what a pod wrote, and grows", async () => {
    const volume = await cloud.createVolume({
      token: randomUUID(),
      name: "data",
      sizeBytes: 64 * MiB,
      tags: {},
    });
    const kind = { name: "data", kind: "disk", serial: volume.serial, fsType: "ext4" } as const;

    // Attached before the cell has its pod.
    await using first = await newCell("one");
    await cloud.attachVolume(volume.id, first.instance.id);
    const write =
      "grep -q ' /data ext4 ' /proc/mounts && echo kept > /data/file && df -m /data | tail -n 1";
    const written = await runPod(first, write, kind);
    assert.equal(written.phase, "Succeeded", JSON.stringify(written));
    const size = Number((await logOf(first)).trim().split(/\s+/)[1]);
    assert.ok(size > 32 && size <= 64, `${size} MiB`);
    await cloud.detachVolume(volume.id, first.instance.id);

    // Enlarged, and attached to a cell whose pod is waiting for it.
    await truncate(path.join(stateDir, "volumes", volume.id, "disk.raw"), 192 * MiB);
    await using second = await newCell("two");
    const read = "cat /data/file && df -m /data | tail -n 1; ! touch /data/no";
    const waiting = runPod(second, read, { ...kind, readOnly: false });
    await cloud.attachVolume(volume.id, second.instance.id);
    assert.equal((await waiting).phase, "Failed"); // the pod may write
    const [text, ...figures] = (await logOf(second)).trim().split(/\s+/);
    assert.equal(text, "kept");
    assert.ok(Number(figures[1]) > 160, `${figures[1]} MiB`);
    await cloud.terminate(second.instance.id);
    assert.equal((await cloud.listVolumes())[0]?.attachedTo, undefined);
    await cloud.deleteVolume(volume.id);
  });

  interface RealCell extends AsyncDisposable {
    readonly instance: Instance;
    readonly agent: AgentClient;
  }

  async function newCell(name: string): Promise<RealCell> {
    const wanted = { name, image, instanceType: "local.micro" };
    const { instance, access } = await launchCell(cloud, authority, wanted);
    const signal = AbortSignal.timeout(120_000);
    const agent = await waitForAgent({ ...access, logger: silentLogger, signal });
    return {
      instance,
      agent,
      [Symbol.asyncDispose]: async () => {
        await agent[Symbol.asyncDispose]();
        await cloud.terminate(instance.id);
      },
    };
  }

  /** Runs a shell command in a pod with the volume at /data, until the cell has detached the volume. */
  async function runPod(
    { agent, instance }: RealCell,
    script: string,
    volume: DesiredVolume,
  ): Promise<PodReport> {
    await agent.putPod(
      desiredPod({
        restartPolicy: "Never",
        podIp: instance.podIp ?? "",
        containers: [
          container("main", {
            image: `${registry.host}/busybox:1`,
            command: ["sh", "-c", script],
            mounts: [{ name: volume.name, mountPath: "/data" }],
          }),
        ],
        volumes: [volume],
        registries: [{ host: registry.host, endpoint: registry.endpoint }],
      }),
    );
    for await (const report of agent.status(AbortSignal.timeout(120_000)))
      if (report.isReleased === true) return report;
    throw new Error("The agent ended its reports");
  }

  async function logOf({ agent }: RealCell): Promise<string> {
    let text = "";
    for await (const chunk of await agent.logs("main", {}, AbortSignal.timeout(30_000)))
      text += String(chunk);
    return text;
  }
});
