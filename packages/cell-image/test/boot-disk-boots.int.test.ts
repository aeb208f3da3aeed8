// A disk that boots by itself on machines like those of EC2: an NVMe disk, an address from DHCP, and an empty kernel command
// line.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { before, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { buildBootDisk, buildCellImage } from "../src/index.ts";
import { probesOf } from "./support/probes-of.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const diskBytes = 4 * 1024 ** 3;
const firmware = "/usr/share/ovmf/OVMF.fd";
const skip = process.getuid?.() === 0 ? false : "the image is built by root only";
const noUefi = existsSync(firmware) ? false : `there is no ${firmware} (Debian: ovmf)`;

describe("disk that boots: machines", { skip, timeout: 280_000 }, () => {
  let file = "";

  before(async () => {
    const agentEntry = path.join(import.meta.dirname, "probe-agent.ts");
    const image = await buildCellImage({ cacheDir, agentEntry });
    ({ file } = await buildBootDisk({ cacheDir, image }));
  });

  /** Starts a machine with a larger disk. */
  const boot = async (...bios: readonly string[]) => {
    using folder = temporaryFolder();
    const disk = path.join(folder.path, "disk.qcow2");
    const overlay = ["-q", "-f", "qcow2", "-b", file, "-F", "raw", disk, `${diskBytes}`];
    await runCommand("qemu-img", ["create", ...overlay]);
    const machine = ["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "512"];
    const drive = ["-drive", `if=none,id=root,format=qcow2,file=${disk}`];
    const nvme = ["-device", "nvme,drive=root,serial=vol0123,bootindex=0"];
    // User-mode networking without any connection. Its DHCP server answers, but names no router.
    const nic = ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n,romfile="];
    const console = ["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"];
    const [first, second] = await probesOf([
      ...machine,
      ...bios,
      ...drive,
      ...nvme,
      ...nic,
      ...console,
    ]);
    assert.ok(first);
    assert.ok(first.addresses.includes("10.0.2.15/24"), first.addresses.join(" "));
    assert.ok((second?.diskBytes ?? 0) > diskBytes * 0.85, `not grown: ${second?.diskBytes}`);
  };

  it("boots by a BIOS, and grows its root to the disk", async () => {
    await boot();
  });

  it("boots by UEFI, and grows its root to the disk", { skip: noUefi }, async () => {
    await boot("-bios", firmware);
  });
});
