import { clonePort } from "@kip/cloud-init";
import type { Architecture } from "@kip/cloud";
import type { Accelerator } from "./accelerator.ts";
import type { MachineUser } from "./machine-user.ts";
import { isAtLeast, type QemuVersion } from "./qemu-version.ts";

/** The backing of a machine's memory. */
export type MachineMemory =
  | { readonly kind: "new" }
  /**
   * A file that the machine writes to, because it will become a template. `isFull`: it already has another machine's memory.
   */
  | { readonly kind: "shared"; readonly file: string; readonly isFull?: boolean }
  /** A template's file, which the machine reads and does not change. */
  | { readonly kind: "private"; readonly file: string };

/** All inputs for a machine's command line. */
export interface QemuMachine {
  readonly id: string;
  readonly architecture: Architecture;
  readonly qemuVersion: QemuVersion;
  readonly accelerator: Accelerator;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly memory: MachineMemory;
  readonly kernel: string;
  readonly initrd: string;
  readonly cmdline: string;
  readonly rootDisk: string;
  /** Absent for copies and templates. */
  readonly seed?: string | undefined;
  readonly console: string;
  readonly control: string;
  readonly command: string;
  readonly pid: string;
  readonly tap: string;
  readonly mac: string;
  /** The only folder of the host that QEMU sees once it has started. */
  readonly folder: string;
  readonly user: MachineUser;
  /** RFC 3339 without a zone: initial time of the machine's clock. @default the host's time */
  readonly clock?: string | undefined;
  /** Whether it is a copy or a template. Its clone port is then connected to {@link portDescriptor}. */
  readonly hasPort: boolean;
}

/** Descriptors that QEMU inherits: sockets that are connected to the starting process. */
export const startDescriptor = 3;
/** @see startDescriptor */
export const portDescriptor = 4;
/** A file, open for reading, with a template's device state. */
export const stateDescriptor = 5;

/**
 * Arguments of `qemu-system-x86_64` or `qemu-system-aarch64` for a machine that is not running yet (`-S`): no default devices,
 * no firmware menus, no user-mode network. Once QEMU has opened all its files, it becomes an unprivileged user in a folder of
 * its own, and the kernel refuses system calls that it does not need.
 *
 * Devices have explicit names and addresses, because those of a template and its copies must be the same.
 */
export function qemuArguments(machine: QemuMachine): readonly string[] {
  const isKvm = machine.accelerator === "kvm";
  const { board, processor } = boards[machine.architecture];
  return [
    ["-name", `guest=${machine.id}`],
    ["-nodefaults", "-no-user-config", "-no-reboot", "-S"],
    ["-display", "none"],
    ["-machine", `${board},usb=off,graphics=off,memory-backend=ram`],
    ["-accel", isKvm ? "kvm" : "tcg,thread=multi"],
    ["-cpu", isKvm ? "host" : processor],
    ["-smp", String(machine.cpus)],
    ["-m", `${mebibytes(machine)}M`],
    ["-object", memoryObject(machine)],
    ["-kernel", machine.kernel],
    ["-initrd", machine.initrd],
    ["-append", kernelArguments(machine)],
    machine.clock === undefined ? [] : ["-rtc", `base=${machine.clock}`],
    diskArguments(machine),
    ["-netdev", `tap,id=net0,ifname=${machine.tap},script=no,downscript=no`],
    ["-device", `virtio-net-pci,id=nic,netdev=net0,mac=${machine.mac},romfile=,addr=0x4`],
    ["-object", "rng-random,id=rng0,filename=/dev/urandom"],
    ["-device", "virtio-rng-pci,id=rng,rng=rng0,addr=0x5"],
    // For disks that are plugged in later. Their bus is "volumes.0".
    ["-device", "virtio-scsi-pci,id=volumes,addr=0x6"],
    ["-device", "virtio-serial-pci,id=ports,max_ports=2,addr=0x7"],
    ["-chardev", machine.hasPort ? `socket,id=port,fd=${portDescriptor}` : "null,id=port"],
    ["-device", `virtserialport,id=clone,bus=ports.0,nr=1,chardev=port,name=${clonePort}`],
    ["-chardev", `file,id=console,append=on,path=${escape(machine.console)}`],
    ["-serial", "chardev:console"],
    // Three control connections: for starting the machine, watching it, and commands.
    ["-chardev", `socket,id=start,fd=${startDescriptor}`],
    ["-mon", "chardev=start,mode=control"],
    ["-chardev", `socket,id=control,server=on,wait=off,path=${escape(machine.control)}`],
    ["-mon", "chardev=control,mode=control"],
    ["-chardev", `socket,id=command,server=on,wait=off,path=${escape(machine.command)}`],
    ["-mon", "chardev=command,mode=control"],
    // QEMU locks this file while it runs, so a second QEMU for the same machine cannot start.
    ["-pidfile", machine.pid],
    isCopy(machine.memory) ? ["-incoming", "defer"] : [],
    confinement(machine),
  ].flat();
}

/** Board and processor by architecture. */
const boards: Readonly<
  Record<Architecture, { readonly board: string; readonly processor: string }>
> = {
  amd64: { board: "q35,vmport=off,hpet=off", processor: "max" },
  // A faster cipher for pointer authentication than that of real processors, which would take much of the time.
  arm64: { board: "virt,gic-version=max", processor: "max,pauth-impdef=on" },
};

/**
 * An emulated processor may wait so long for the host's that the kernel misses its timer's first interrupts. Then it would take
 * the timer for broken, and panic ("IO-APIC + timer doesn't work"). With KVM, it skips this check by itself.
 */
function kernelArguments({ accelerator, architecture, cmdline }: QemuMachine): string {
  const isTimerTrusted = accelerator === "tcg" && architecture === "amd64";
  return isTimerTrusted ? `${cmdline} no_timer_check` : cmdline;
}

/** Whether the machine continues from the state of another one. */
function isCopy(memory: MachineMemory): boolean {
  return memory.kind === "private" || (memory.kind === "shared" && memory.isFull === true);
}

function memoryObject(machine: QemuMachine): string {
  const { memory, qemuVersion } = machine;
  const size = `size=${mebibytes(machine)}M`;
  if (memory.kind === "new") return `memory-backend-ram,id=ram,${size}`;
  const file = `memory-backend-file,id=ram,${size},mem-path=${escape(memory.file)}`;
  if (memory.kind === "shared") return `${file},share=on`;
  // QEMU before 8.2 always opens the file for writing, even if it never writes.
  const isReadOnly = isAtLeast(qemuVersion, [8, 2]);
  return `${file},share=off${isReadOnly ? ",readonly=on,rom=off" : ""}`;
}

/** A disk ends with its machine, so its data need not reach the physical disk. */
function diskArguments({ rootDisk, seed }: QemuMachine): readonly string[] {
  // Otherwise QEMU would open the file for reading and later reopen it for writing, when it no longer may.
  const common = "auto-read-only=off,discard=unmap,cache.no-flush=on";
  const root = [
    ["-blockdev", `driver=file,node-name=root-file,filename=${escape(rootDisk)},${common}`],
    ["-blockdev", "driver=qcow2,node-name=root,file=root-file,discard=unmap,cache.no-flush=on"],
    ["-device", "virtio-blk-pci,id=root-disk,drive=root,addr=0x2"],
  ];
  if (seed === undefined) return root.flat();
  return [
    ...root,
    ["-blockdev", `driver=file,node-name=seed-file,filename=${escape(seed)},read-only=on`],
    ["-blockdev", "driver=raw,node-name=seed,file=seed-file,read-only=on"],
    ["-device", "virtio-blk-pci,id=seed-disk,drive=seed,addr=0x3"],
  ].flat();
}

/**
 * `elevateprivileges` would also prevent QEMU from switching to its user. After that switch it has no capabilities and
 * `no_new_privs` is set, so it cannot regain privileges.
 */
function confinement({ qemuVersion, folder, user }: QemuMachine): readonly string[] {
  const id = `${user.uid}:${user.gid}`;
  const become = isAtLeast(qemuVersion, [9, 1])
    ? ["-run-with", `chroot=${escape(folder)},user=${id}`]
    : ["-chroot", folder, "-runas", id];
  return [...become, "-sandbox", "on,obsolete=deny,spawn=deny,resourcecontrol=deny"];
}

function mebibytes({ memoryBytes }: QemuMachine): number {
  return Math.ceil(memoryBytes / 2 ** 20);
}

/** Escapes commas in a value, as QEMU requires. */
function escape(value: string): string {
  return value.replaceAll(",", ",,");
}

/** The machine's MAC address. It is locally administered and derived from the IP address. */
export function macOf(managementIp: string): string {
  const octets = managementIp
    .split(".")
    .map((octet) => Number(octet).toString(16).padStart(2, "0"));
  return `02:6b:${octets.join(":")}`;
}

/** Name of the machine's device on the bridge. */
export function tapOf(slot: number): string {
  return `cell${slot}`;
}

/** The launcher's additions to the image's kernel command line, which make DHCP unnecessary. */
export function networkCmdline(options: {
  readonly address: string;
  readonly gateway: string;
  readonly nameservers: readonly string[];
  readonly hostname: string;
}): string {
  const dns = options.nameservers.length === 0 ? [] : [`kip.dns=${options.nameservers.join(",")}`];
  return [
    `kip.address=${options.address}`,
    `kip.gateway=${options.gateway}`,
    ...dns,
    `kip.hostname=${options.hostname}`,
  ].join(" ");
}
