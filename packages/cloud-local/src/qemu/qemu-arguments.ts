import { clonePort } from "@kip/cloud-init";
import type { Architecture } from "@kip/cloud";
import type { Accelerator } from "./accelerator.ts";
import type { MachineUser } from "./machine-user.ts";
import { isAtLeast, type QemuVersion } from "./qemu-version.ts";

/** Where a machine's memory comes from. */
export type MachineMemory =
  | { readonly kind: "new" }
  /** A file that what the machine writes goes to: it is to become a template. Full if it was another one's before. */
  | { readonly kind: "shared"; readonly file: string; readonly isFull?: boolean }
  /** A file that the machine sees and does not change: that of a template. */
  | { readonly kind: "private"; readonly file: string };

/** Everything that the command line of a machine depends on. */
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
  /** Machines that come of a template, and templates, have none. */
  readonly seed?: string | undefined;
  readonly console: string;
  readonly control: string;
  readonly command: string;
  readonly pid: string;
  readonly tap: string;
  readonly mac: string;
  /** All of the host's files that QEMU sees once it has started. */
  readonly folder: string;
  readonly user: MachineUser;
  /** RFC 3339 without a zone: what the machine's clock shows at first. @default the host's time */
  readonly clock?: string | undefined;
  /** Whether a copy or a template: its clone port is connected to {@link portDescriptor}. */
  readonly hasPort: boolean;
}

/** Descriptors that QEMU inherits: sockets, connected to the process that starts it. */
export const startDescriptor = 3;
/** @see startDescriptor */
export const portDescriptor = 4;
/** A file, open for reading: the device state of a template. */
export const stateDescriptor = 5;

/**
 * Arguments of `qemu-system-x86_64` or `qemu-system-aarch64` for a machine that does not run yet (`-S`): no default devices, no firmware
 * menus, no user-mode network. Once all its files are open it is an unprivileged user in a folder of its own, and
 * the kernel refuses it system calls that it does not need.
 *
 * Devices have names and addresses of their own: those of a template and of its copies must be the same.
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
    ["-append", machine.cmdline],
    machine.clock === undefined ? [] : ["-rtc", `base=${machine.clock}`],
    diskArguments(machine),
    ["-netdev", `tap,id=net0,ifname=${machine.tap},script=no,downscript=no`],
    ["-device", `virtio-net-pci,id=nic,netdev=net0,mac=${machine.mac},romfile=,addr=0x4`],
    ["-object", "rng-random,id=rng0,filename=/dev/urandom"],
    ["-device", "virtio-rng-pci,id=rng,rng=rng0,addr=0x5"],
    // For disks that are plugged in later: their bus is "volumes.0".
    ["-device", "virtio-scsi-pci,id=volumes,addr=0x6"],
    ["-device", "virtio-serial-pci,id=ports,max_ports=2,addr=0x7"],
    ["-chardev", machine.hasPort ? `socket,id=port,fd=${portDescriptor}` : "null,id=port"],
    ["-device", `virtserialport,id=clone,bus=ports.0,nr=1,chardev=port,name=${clonePort}`],
    ["-chardev", `file,id=console,append=on,path=${escape(machine.console)}`],
    ["-serial", "chardev:console"],
    // Three control connections: to start the machine, to watch it, and for commands.
    ["-chardev", `socket,id=start,fd=${startDescriptor}`],
    ["-mon", "chardev=start,mode=control"],
    ["-chardev", `socket,id=control,server=on,wait=off,path=${escape(machine.control)}`],
    ["-mon", "chardev=control,mode=control"],
    ["-chardev", `socket,id=command,server=on,wait=off,path=${escape(machine.command)}`],
    ["-mon", "chardev=command,mode=control"],
    // Locked by QEMU for its life: a second QEMU of the same machine cannot start.
    ["-pidfile", machine.pid],
    isCopy(machine.memory) ? ["-incoming", "defer"] : [],
    confinement(machine),
  ].flat();
}

/** What machines of an architecture are built around. */
const boards: Readonly<
  Record<Architecture, { readonly board: string; readonly processor: string }>
> = {
  amd64: { board: "q35,vmport=off,hpet=off", processor: "max" },
  // Signatures of pointers by another cipher than a real processor's: that one takes much of the time.
  arm64: { board: "virt,gic-version=max", processor: "max,pauth-impdef=on" },
};

/** Whether the machine goes on from where another one was stopped. */
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

/** A disk dies with its machine, so what it writes need not reach the platter. */
function diskArguments({ rootDisk, seed }: QemuMachine): readonly string[] {
  // QEMU would open the file for reading and again, for writing, when it is no longer allowed to.
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
 * `elevateprivileges` would also forbid QEMU the one step down to its user; after that step it has no capability and
 * `no_new_privs` is on, so there is no way up.
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

/** QEMU's own escape of a comma in a value. */
function escape(value: string): string {
  return value.replaceAll(",", ",,");
}

/** The machine's hardware address: locally administered, the same for the same IP address. */
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

/** What the launcher adds to the image's kernel command line, so that no DHCP is needed. */
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
