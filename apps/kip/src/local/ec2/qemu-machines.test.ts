import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError, type Instance, type InterruptionNotice, type LaunchRequest } from "@kip/cloud";
import type { MachineLaunch, MetadataEntry, MetadataService } from "@kip/cloud-aws/emulator";
import type { LocalCloud } from "@kip/cloud-local";
import type { MetadataHops } from "./metadata-hops.ts";
import { QemuMachines } from "./qemu-machines.ts";

const launch: MachineLaunch = {
  imageId: "ami-1",
  instanceType: "t3a.nano",
  isSpot: true,
  rootDiskBytes: 5 * 2 ** 30,
  userData: Buffer.from("data"),
  hopLimit: 1,
  tags: { KipCell: "cell-1", "kip-pod-name": "web", Name: "Kip Node" },
};

/** A local cloud with one machine, the machine's metadata, and a log of all calls. */
function open() {
  const done: string[] = [];
  const entries = new Map<string, MetadataEntry>();
  let request: LaunchRequest | undefined;
  let onNotice: (notice: InterruptionNotice) => void = () => {};
  let onTerminated: (instance: Instance) => void = () => {};
  const instance = { id: "local-1", managementIp: "192.0.2.1", podIp: "192.0.2.2" };
  const world = { isThere: true, hopsFail: false };
  const cloud = {
    launch: async (asked: LaunchRequest) => await Promise.resolve(((request = asked), instance)),
    describe: async () => await Promise.resolve(world.isThere ? instance : undefined),
    terminate: async (id: string) => void (await Promise.resolve(done.push(`terminate ${id}`))),
    setTags: async (_id: string, tags: object) => {
      done.push(`tags ${Object.values(tags).join(" ")}`);
      await Promise.resolve();
      if (!world.isThere) throw new CloudError("CLOUD_NOT_FOUND", "it is gone");
    },
    onInterruption: (callback: typeof onNotice) => {
      onNotice = callback;
      return () => void done.push("stopped listening");
    },
    onTerminated: (callback: typeof onTerminated) => {
      onTerminated = callback;
      return () => void done.push("stopped listening");
    },
  };
  const metadata = {
    set: (addresses: readonly string[], entry: MetadataEntry) => {
      for (const address of addresses) entries.set(address, entry);
    },
    delete: (addresses: readonly string[]) => {
      for (const address of addresses) entries.delete(address);
    },
  };
  const hops = {
    allow: async () => {
      done.push("allow");
      await Promise.resolve();
      if (world.hopsFail) throw new Error("no rules");
    },
    forget: async () => void (await Promise.resolve(done.push("forget"))),
  };
  const machines = new QemuMachines({
    cloud: cloud as unknown as LocalCloud, // the calls that the machines need
    image: "image",
    region: "us-east-1",
    zone: "us-east-1a",
    metadata: metadata as unknown as MetadataService,
    hops: hops as unknown as MetadataHops,
  });
  const ends: string[] = [];
  return {
    world,
    done,
    entries,
    ends,
    request: () => request,
    start: async (changes: Partial<MachineLaunch> = {}) =>
      await machines.start({ ...launch, ...changes }, (how) => ends.push(how)),
    notify: (endsAt: string) => onNotice({ instance: instance as Instance, endsAt }),
    terminated: (id = "local-1") => onTerminated({ ...instance, id } as Instance),
  };
}

describe("QemuMachines", () => {
  it("starts a machine that finds its user data at the metadata service alone", async () => {
    const { start, request, entries, done } = open();
    const machine = await start();
    assert.equal(request()?.userData.length, 0);
    assert.equal(request()?.name, "cell-1");
    assert.equal(request()?.launchType, "spot");
    assert.deepEqual(request()?.tags, { "kip-pod-name": "web" });
    assert.equal(entries.size, 0, "not before it has a name");
    machine.named("i-1");
    const entry = entries.get("192.0.2.1");
    assert.equal(entries.get("192.0.2.2"), entry);
    assert.equal(Buffer.from(entry?.userData ?? []).toString(), "data");
    assert.equal(entry?.paths.get("instance-id"), "i-1");
    assert.equal(entry?.paths.get("instance-life-cycle"), "spot");
    await machine.tagged({ "kip-pod-name": "next", Name: "other" });
    await machine.end();
    assert.equal(entries.size, 0);
    const stops = ["stopped listening", "stopped listening"];
    assert.deepEqual(done, ["tags next", ...stops, "terminate local-1"]);
  });

  it("writes the notice of its machine into its metadata, and says how it ended", async () => {
    for (const isNotified of [false, true]) {
      const { start, entries, ends, notify, terminated } = open();
      (await start()).named("i-1");
      const action = (): string | undefined =>
        entries.get("192.0.2.1")?.paths.get("spot/instance-action");
      assert.equal(action(), undefined);
      if (isNotified) notify("2026-01-02T03:04:05.678Z");
      const expected = '{"action":"terminate","time":"2026-01-02T03:04:05Z"}';
      assert.equal(action(), isNotified ? expected : undefined);
      terminated("another");
      assert.deepEqual(ends, []);
      terminated();
      assert.deepEqual(ends, [isNotified ? "taken" : "itself"]);
    }
  });

  it("notes an end before anybody listened, and a tag that comes after the end", async () => {
    const { world, start, ends } = open();
    world.isThere = false;
    const machine = await start();
    assert.deepEqual(ends, ["itself"]);
    await machine.tagged({ "kip-pod-name": "next" });
  });

  it("lets answers go a second hop where that is asked for, and leaves no machine if that fails", async () => {
    const { world, start, done } = open();
    await (await start({ hopLimit: 2 })).end();
    assert.deepEqual([done[0], done.at(-1)], ["allow", "forget"]);
    world.hopsFail = true;
    await assert.rejects(start({ hopLimit: 2 }), /no rules/);
    assert.deepEqual(done.slice(-2), ["terminate local-1", "forget"]);
  });
});
