import assert from "node:assert/strict";
import { access, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "node:test";
import { decode, runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { buildCellImage, buildDemoImage, type CellImage } from "../src/index.ts";
import { probesOf, type ProbeFacts } from "./support/probes-of.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const diskBytes = 3 * 1024 ** 3;

const skip = process.getuid?.() === 0 ? false : "the image is built by root only";

describe("cell image", { skip, timeout: 280_000 }, () => {
  let image: CellImage;

  before(async () => {
    image = await buildCellImage({
      cacheDir,
      agentEntry: path.join(import.meta.dirname, "probe-agent.ts"),
      onProgress: (message) => console.log(message),
    });
  });

  it("is found again, not built again", async () => {
    const messages: string[] = [];
    const again = await buildCellImage({
      cacheDir,
      agentEntry: path.join(import.meta.dirname, "probe-agent.ts"),
      onProgress: (message) => messages.push(message),
    });
    assert.deepEqual(again, image);
    assert.deepEqual(messages, []);
  });

  it("boots to a machine that is ready for containers, and starts its agent again", async () => {
    using directory = temporaryFolder();
    const [first, second] = await boot(image, directory.path);
    assert.equal(first?.run, 1);
    assert.equal(second?.run, 2);
    assert.equal(first.hostname, "probe");
    assert.ok(first.addresses.includes("10.0.2.15/24"));
    assert.match(first.machineId, /^[\da-f]{32}$/);
    assert.equal(first.loopback, "127.0.0.1");
    assert.match(first.routes, /default via 10\.0\.2\.2 dev eth0/);
    assert.equal(first.resolvConf, "nameserver 10.0.2.3\nnameserver 10.0.2.4");
    for (const controller of ["cpu", "memory", "pids", "io", "cpuset"])
      assert.ok(first.controllers.includes(controller), controller);
    for (const folder of ["/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/run", "/tmp"])
      assert.ok(first.mounts.includes(folder), folder);
    assert.deepEqual([...first.seed].sort(), ["meta-data", "user-data"]);
    const { userspace = 0, network = 0 } = first.bootTimings;
    assert.ok(userspace > 0 && network >= userspace);
    assert.match(first.crun, /^crun version/);
    assert.match(first.conmon, /^conmon version/);
    assert.equal(first.overlay, "loaded");
    assert.equal(first.epollWatches, String(2n ** 63n - 1n), "none that root's programs share");
    assert.ok(Math.abs(first.time - Date.now()) < 60_000, "the clock is wrong");
    assert.ok((second?.diskBytes ?? 0) > image.rootDiskBytes * 2, String(second?.diskBytes));
  });

  it("comes with a demo image that skopeo can read", async () => {
    const demo = await buildDemoImage({ cacheDir });
    const { stdout } = await runCommand("skopeo", ["inspect", `oci:${demo.layoutDir}:${demo.tag}`]);
    assert.ok(stdout.includes(demo.digest));
  });

  it("comes with a demo image in which the usual network commands work", async () => {
    using root = temporaryFolder();
    const { layoutDir } = await buildDemoImage({ cacheDir });
    const { stdout } = await runCommand("skopeo", ["inspect", `oci:${layoutDir}:latest`]);
    const { Layers: layers } = decodeLayers(JSON.parse(stdout), "skopeo");
    for (const layer of layers) {
      const blob = path.join(layoutDir, "blobs", layer.replace(":", "/"));
      await runCommand("tar", ["-xzf", blob, "-C", root.path]);
    }
    // Files that a runtime and a kubelet provide.
    await writeFile(path.join(root.path, "dev/null"), "");
    await writeFile(path.join(root.path, "etc/hosts"), "127.0.0.1 localhost\n");
    await writeFile(path.join(root.path, "etc/resolv.conf"), "nameserver 127.0.0.1\n");
    const page = "http://localhost:8080/";
    const commands: readonly (readonly [command: string, prints: RegExp])[] = [
      ["wget -qO- localhost:8080", /^Hello$/],
      [`wget -T 3 -q -O - ${page}`, /^Hello$/],
      [`wget -qT3 -O- ${page}`, /^Hello$/],
      [`wget --timeout=3 -qO- ${page}`, /^Hello$/],
      [`wget --spider --timeout 3 ${page}`, /remote file exists/],
      ["wget -T 1 -qO- http://127.0.0.1:8081/ || echo failed", /timed out\nfailed/],
      ["wget -T 9 -qO- http://name.test/ || echo failed", /bad address.*\nfailed/],
      ["ping -c 1 localhost", / 1 packets received/],
      ["nslookup name.test 127.0.0.1", /timed out|refused/],
    ];
    const server = "httpd -p 127.0.0.1:8080 -h /site; nc -l -p 8081 -e sleep 9 & ";
    for (const [command, prints] of commands) {
      const inside = `${server}${command}; exit 0`;
      const script = `ip link set lo up; mount -t proc proc "$1/proc"; exec chroot "$1" /bin/sh -c "$2" 2>&1`;
      const isolated = [
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        script,
        "sh",
      ];
      const result = await runCommand("unshare", [...isolated, root.path, inside]);
      assert.match(result.stdout.trim(), prints, command);
    }
  });
});

const decodeLayers = decode.object({ Layers: decode.list(decode.string) });

/** Boots the image until the probe has reported twice. */
async function boot(image: CellImage, directory: string): Promise<readonly ProbeFacts[]> {
  await access(image.rootDisk);
  const disk = path.join(directory, "disk.qcow2");
  const overlay = ["-q", "-f", "qcow2", "-b", image.rootDisk, "-F", "raw", disk, `${diskBytes}`];
  await runCommand("qemu-img", ["create", ...overlay]);
  const seed = path.join(directory, "seed");
  await mkdir(seed);
  await writeFile(path.join(seed, "user-data"), "#cloud-config\n{}\n");
  await writeFile(path.join(seed, "meta-data"), '{"instance-id": "i-1"}');
  const iso = path.join(directory, "seed.iso");
  await runCommand("genisoimage", ["-quiet", "-V", "CIDATA", "-r", "-J", "-o", iso, seed]);
  const network =
    "kip.address=10.0.2.15/24 kip.gateway=10.0.2.2 kip.dns=10.0.2.3,10.0.2.4 kip.hostname=probe";
  const machine = ["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "512"];
  const started = ["-kernel", image.kernel, "-initrd", image.initrd];
  const append = ["-append", `${image.cmdline} ${network}`];
  const rootDisk = ["-drive", `if=virtio,format=qcow2,file=${disk}`];
  const seedDisk = ["-drive", `if=virtio,format=raw,readonly=on,file=${iso}`];
  // User-mode networking without any connection.
  const nic = ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n"];
  const console = ["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"];
  return await probesOf([
    ...machine,
    ...started,
    ...append,
    ...rootDisk,
    ...seedDisk,
    ...nic,
    ...console,
  ]);
}
