import type { Accelerator } from "./accelerator.ts";

/** Everything that the command line of a machine depends on. */
export interface QemuMachine {
  readonly id: string;
  readonly accelerator: Accelerator;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly kernel: string;
  readonly initrd: string;
  readonly cmdline: string;
  readonly rootDisk: string;
  readonly seed: string;
  readonly console: string;
  readonly control: string;
  readonly command: string;
  readonly pid: string;
  readonly tap: string;
  readonly mac: string;
}

/**
 * Arguments of `qemu-system-x86_64` for a machine: no default devices, no firmware menus, no user-mode
 * network, no monitor but the control socket; it returns once the machine runs (`-daemonize`).
 */
export function qemuArguments(machine: QemuMachine): readonly string[] {
  const isKvm = machine.accelerator === "kvm";
  const file = (value: string): string => value.replaceAll(",", ",,"); // QEMU's own escape
  return [
    ["-name", `guest=${machine.id}`],
    ["-nodefaults", "-no-user-config", "-no-reboot", "-daemonize"],
    ["-display", "none"],
    ["-machine", "q35,usb=off,graphics=off,vmport=off,hpet=off"],
    ["-accel", isKvm ? "kvm" : "tcg,thread=multi"],
    ["-cpu", isKvm ? "host" : "max"],
    ["-smp", String(machine.cpus)],
    ["-m", `${Math.ceil(machine.memoryBytes / 2 ** 20)}M`],
    ["-kernel", machine.kernel],
    ["-initrd", machine.initrd],
    ["-append", machine.cmdline],
    // The disk dies with the machine, so what it writes need not reach the platter.
    [
      "-drive",
      `if=none,id=root,format=qcow2,cache=unsafe,discard=unmap,file=${file(machine.rootDisk)}`,
    ],
    ["-device", "virtio-blk-pci,drive=root"],
    ["-drive", `if=none,id=seed,format=raw,readonly=on,file=${file(machine.seed)}`],
    ["-device", "virtio-blk-pci,drive=seed"],
    ["-netdev", `tap,id=net0,ifname=${machine.tap},script=no,downscript=no`],
    ["-device", `virtio-net-pci,netdev=net0,mac=${machine.mac},romfile=`],
    ["-object", "rng-random,id=rng0,filename=/dev/urandom"],
    ["-device", "virtio-rng-pci,rng=rng0"],
    ["-device", "virtio-scsi-pci,id=volumes"],
    ["-chardev", `file,id=console,append=on,path=${file(machine.console)}`],
    ["-serial", "chardev:console"],
    ["-chardev", `socket,id=control,server=on,wait=off,path=${file(machine.control)}`],
    ["-mon", "chardev=control,mode=control"],
    ["-chardev", `socket,id=command,server=on,wait=off,path=${file(machine.command)}`],
    ["-mon", "chardev=command,mode=control"],
    // Locked by QEMU for its life: a second QEMU of the same machine cannot start.
    ["-pidfile", machine.pid],
  ].flat();
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
