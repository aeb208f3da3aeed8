import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { macOf, networkCmdline, qemuArguments, type QemuMachine } from "./qemu-arguments.ts";

const machine: QemuMachine = {
  id: "i-1",
  architecture: "amd64",
  qemuVersion: [7, 2, 22],
  memory: { kind: "new" },
  folder: "/f",
  user: { uid: 1001, gid: 1001 },
  hasPort: false,
  accelerator: "tcg",
  cpus: 2,
  memoryBytes: 512 * 2 ** 20 + 1,
  kernel: "/k",
  initrd: "/i",
  cmdline: "a=b",
  rootDisk: "/with,comma/disk.qcow2",
  seed: "/s",
  console: "/c",
  control: "/q",
  command: "/x",
  pid: "/p",
  tap: "cell0",
  mac: "02:6b:00:00:00:01",
};

describe("qemuArguments()", () => {
  it("escapes commas in paths and rounds memory up", () => {
    const args = qemuArguments(machine);
    assert.ok(args.some((arg) => arg.includes("filename=/with,,comma/disk.qcow2,")));
    assert.equal(args[args.indexOf("-m") + 1], "513M");
  });

  it("opens no network but the machine's device, and nothing on standard input", () => {
    const args = qemuArguments(machine);
    assert.equal(args.filter((arg) => arg === "-netdev").length, 1);
    assert.ok(!args.some((arg) => /stdio|^user,|hostfwd/.test(arg)));
    assert.ok(args.includes("-nodefaults"));
  });

  it("CVE-2026-47243: shares no folder with the machine", () => {
    for (const accelerator of ["tcg", "kvm"] as const) {
      const args = qemuArguments({ ...machine, accelerator }).join(" ");
      assert.doesNotMatch(args, /virtfs|fsdev|9p|virtiofs|vhost-user|smb=|fat:/);
    }
  });

  it("builds a machine with arm64 on QEMU's own board for it", () => {
    const args = qemuArguments({ ...machine, architecture: "arm64" });
    assert.match(String(args[args.indexOf("-machine") + 1]), /^virt,.*memory-backend=ram$/);
    assert.ok(!args.join(" ").includes("vmport"), "a property of the other board");
    assert.match(String(args[args.indexOf("-cpu") + 1]), /^max,/);
  });

  it("emulates a processor of its own without KVM", () => {
    const accelOf = (args: readonly string[]) => [
      args[args.indexOf("-accel") + 1],
      args[args.indexOf("-cpu") + 1],
    ];
    assert.deepEqual(accelOf(qemuArguments(machine)), ["tcg,thread=multi", "max"]);
    assert.deepEqual(accelOf(qemuArguments({ ...machine, accelerator: "kvm" })), ["kvm", "host"]);
  });

  it("keeps an emulated amd64 kernel from taking its timer for broken when the host is busy", () => {
    const cmdlineOf = (change: Partial<QemuMachine>) => {
      const args = qemuArguments({ ...machine, ...change });
      return args[args.indexOf("-append") + 1];
    };
    assert.equal(cmdlineOf({}), "a=b no_timer_check");
    assert.equal(cmdlineOf({ accelerator: "kvm" }), "a=b");
    assert.equal(cmdlineOf({ architecture: "arm64" }), "a=b");
  });
});

describe("qemuArguments() of copies", () => {
  const template = { ...machine, memory: { kind: "shared", file: "/t/m" }, hasPort: true } as const;
  const copy = { ...machine, memory: { kind: "private", file: "/t/m" }, hasPort: true } as const;
  const valuesOf = (args: readonly string[], option: string): readonly string[] =>
    args.filter((_arg, index) => args[index - 1] === option);

  it("gives all machines the same devices at the same addresses", () => {
    const devices = [machine, template, copy].map((one) =>
      valuesOf(qemuArguments(one), "-device").filter((device) => !device.includes("seed-disk")),
    );
    assert.deepEqual(devices[1], devices[0]);
    assert.deepEqual(devices[2], devices[0]);
    const slots = valuesOf(qemuArguments(machine), "-device").flatMap((device) =>
      /addr=(\w+)/.exec(device)?.slice(1),
    );
    const onPci = slots.filter((slot) => slot !== undefined);
    assert.equal(new Set(onPci).size, onPci.length);
    assert.equal(onPci.length, 6);
  });

  it("lets a copy see the template's memory, and wait for its state", () => {
    const args = qemuArguments(copy);
    assert.match(String(valuesOf(args, "-object")[0]), /mem-path=\/t\/m,share=off$/);
    assert.deepEqual(valuesOf(args, "-incoming"), ["defer"]);
    assert.ok(!qemuArguments(template).includes("-incoming"));
    assert.match(String(valuesOf(qemuArguments(template), "-object")[0]), /share=on$/);
  });

  it("opens the template's memory for reading only, as soon as QEMU can", () => {
    const newer = qemuArguments({ ...copy, qemuVersion: [8, 2, 0] });
    assert.match(String(valuesOf(newer, "-object")[0]), /share=off,readonly=on,rom=off$/);
  });
});

describe("qemuArguments() confines QEMU", () => {
  const sandbox = ["-sandbox", "on,obsolete=deny,spawn=deny,resourcecontrol=deny"];

  it("with the options of its version", () => {
    assert.deepEqual(qemuArguments(machine).slice(-6), [
      "-chroot",
      "/f",
      "-runas",
      "1001:1001",
      ...sandbox,
    ]);
    assert.deepEqual(qemuArguments({ ...machine, qemuVersion: [9, 1, 0] }).slice(-4), [
      "-run-with",
      "chroot=/f,user=1001:1001",
      ...sandbox,
    ]);
  });

  it("and starts it paused, with no way in by the network", () => {
    const args = qemuArguments(machine);
    assert.ok(args.includes("-S"));
    const chardevs = args.filter((_arg, index) => args[index - 1] === "-chardev");
    assert.ok(chardevs.every((value) => !/host=|port=\d|telnet|websocket/.test(value)));
  });
});

describe("macOf()", () => {
  it("is local, unicast and made from the address", () => {
    assert.equal(macOf("198.18.0.255"), "02:6b:c6:12:00:ff");
  });
});

describe("networkCmdline()", () => {
  it("leaves name servers out where there are none", () => {
    const options = {
      address: "198.18.0.16/15",
      gateway: "198.18.0.2",
      nameservers: [],
      hostname: "c",
    };
    assert.equal(
      networkCmdline(options),
      "kip.address=198.18.0.16/15 kip.gateway=198.18.0.2 kip.hostname=c",
    );
  });
});
