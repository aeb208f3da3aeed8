// A disk that boots by itself on an arm64 machine, built on a computer of any architecture. Like a machine of EC2, it has UEFI,
// an NVMe disk, and an address from DHCP.
import assert from "node:assert/strict";
import { copyFileSync, existsSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { buildBootDisk, buildCellImage, type CellImage } from "../src/index.ts";
import { probesOf } from "./support/probes-of.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const diskBytes = 4 * 1024 ** 3;
/** ELF's number of the processor. */
const elfOfArm64 = 183;
const qemu = "qemu-system-aarch64";
const firmware = "/usr/share/AAVMF/AAVMF_CODE.fd";
const variables = "/usr/share/AAVMF/AAVMF_VARS.fd";

function reasonToSkip(): string | false {
  if (process.getuid?.() !== 0) return "the image is built by root only";
  if (!existsSync(`/usr/bin/${qemu}`)) return `there is no ${qemu} (Debian: qemu-system-arm)`;
  return existsSync(firmware) ? false : `there is no ${firmware} (Debian: qemu-efi-aarch64)`;
}

describe("disk that boots with arm64", { skip: reasonToSkip(), timeout: 2_400_000 }, () => {
  let image: CellImage;
  let file = "";

  before(async () => {
    const agentEntry = path.join(import.meta.dirname, "probe-agent.ts");
    const common = { cacheDir, onProgress: console.log };
    image = await buildCellImage({ ...common, agentEntry, architecture: "arm64" });
    const disk = await buildBootDisk({ ...common, image });
    assert.equal(disk.architecture, "arm64");
    ({ file } = disk);
  });

  it("has no program of another processor", async () => {
    using folder = temporaryFolder();
    await runCommand("debugfs", ["-R", `rdump /usr ${folder.path}`, image.rootDisk]);
    const entries = await readdir(folder.path, { recursive: true, withFileTypes: true });
    let programs = 0;
    for (const entry of entries.filter((each) => each.isFile())) {
      const name = path.join(entry.parentPath, entry.name);
      await using handle = await open(name);
      const header = Buffer.alloc(20);
      await handle.read(header, 0, header.length, 0);
      if (!header.subarray(0, 4).equals(Buffer.from("7f454c46", "hex"))) continue;
      programs++;
      assert.equal(header.readUInt16LE(18), elfOfArm64, name);
    }
    assert.ok(programs > 300, `${programs} programs, libraries and kernel modules`);
  });

  it("boots by UEFI, with the agent and its programs, and grows its root to the disk", async () => {
    using folder = temporaryFolder();
    const disk = path.join(folder.path, "disk.qcow2");
    const overlay = ["-q", "-f", "qcow2", "-b", file, "-F", "raw", disk, `${diskBytes}`];
    await runCommand("qemu-img", ["create", ...overlay]);
    const store = path.join(folder.path, "variables.fd");
    copyFileSync(variables, store);
    const args = [
      ["-M", "virt,gic-version=max", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on"],
      ["-m", "768"],
      ["-drive", `if=pflash,unit=0,format=raw,readonly=on,file=${firmware}`],
      ["-drive", `if=pflash,unit=1,format=raw,file=${store}`],
      ["-drive", `if=none,id=root,format=qcow2,file=${disk}`],
      ["-device", "nvme,drive=root,serial=vol0123,bootindex=0"],
      // User-mode networking without any connection. Its DHCP server answers, but names no router.
      ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n,romfile="],
      ["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"],
    ].flat();
    const [first, second] = await probesOf(args, qemu);
    assert.ok(first);
    assert.ok(first.addresses.includes("10.0.2.15/24"), first.addresses.join(" "));
    assert.match(first.crun, /^crun version/);
    assert.match(first.conmon, /^conmon version/);
    assert.equal(first.overlay, "loaded");
    assert.ok((second?.diskBytes ?? 0) > diskBytes * 0.85, `not grown: ${second?.diskBytes}`);
  });
});
