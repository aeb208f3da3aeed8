import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { macOf, networkCmdline, qemuArguments, type QemuMachine } from "./qemu-arguments.ts";

const machine: QemuMachine = {
  id: "i-1",
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

  it("emulates a processor of its own without KVM", () => {
    const accelOf = (args: readonly string[]) => [
      args[args.indexOf("-accel") + 1],
      args[args.indexOf("-cpu") + 1],
    ];
    assert.deepEqual(accelOf(qemuArguments(machine)), ["tcg,thread=multi", "max"]);
    assert.deepEqual(accelOf(qemuArguments({ ...machine, accelerator: "kvm" })), ["kvm", "host"]);
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
