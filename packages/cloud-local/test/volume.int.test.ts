import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  chown,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  stat,
  writeFile,
} from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { decode, signalProcess } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { Instance, Volume, VolumeRequest } from "@kip/cloud";
import { findProcesses } from "../src/host/processes.ts";
import type { LocalCloud } from "../src/index.ts";
import { parseMachineRecord } from "../src/machine/machine-record.ts";
import { runCommands } from "../src/qemu/qmp-session.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";
import { programFile } from "./support/program-file.ts";

const test = await prepareTestCloud("kiptvol", 5);
after(() => test.remove());

const volumeRequest = (): VolumeRequest => ({
  token: randomUUID(),
  name: "data",
  sizeBytes: 8 * 2 ** 20 + 1,
  tags: { purpose: "test" },
});
const machineFolder = (id: string): string => path.join(test.options.stateDir, "machines", id);
const volumeFile = (id: string): string =>
  path.join(test.options.stateDir, "volumes", id, "disk.raw");

describe("LocalVolumes", { timeout: 240_000 }, () => {
  it("makes one volume for one token, whole, and forgets it", async () => {
    await using cloud = await test.open();
    await using other = await test.open();
    await using stranger = await test.open({ owner: "strangers" });
    const asked = volumeRequest();
    const [volume, same] = await Promise.all([
      cloud.createVolume(asked),
      other.createVolume(asked),
    ]);
    assert.deepEqual(volume, same);
    assert.match(volume.serial, /^vol[0-9a-f]{17}$/);
    assert.equal(volume.sizeBytes, 9 * 2 ** 20);
    const file = await stat(volumeFile(volume.id));
    assert.equal(file.size, volume.sizeBytes);
    assert.equal(file.mode & 0o777, 0o600);
    assert.ok(file.blocks * 512 < 2 ** 20, "it is sparse");
    assert.deepEqual(await other.listVolumes(), [volume]);
    assert.deepEqual(await stranger.listVolumes(), []);
    await stranger.deleteVolume(volume.id);
    await cloud.deleteVolume(volume.id);
    await cloud.deleteVolume(volume.id);
    assert.deepEqual(await cloud.listVolumes(), []);
    assert.deepEqual(await readdir(path.join(test.options.stateDir, "volumes")), []);
  });

  it("refuses sizes that cannot be, and what the disk has no room for", async () => {
    await using cloud = await test.open({ diskReserveBytes: 2 ** 60 });
    for (const sizeBytes of [0, 2 ** 20 - 1, 1.5 * 2 ** 40 + 0.5, 2 ** 50])
      await assert.rejects(cloud.createVolume({ ...volumeRequest(), sizeBytes }), (error) =>
        CloudError.is(error, "CLOUD_INVALID_REQUEST"),
      );
    await assert.rejects(
      cloud.createVolume({ ...volumeRequest(), sizeBytes: 2 ** 43 }),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") && /MiB of free disk/.test(String(error)),
    );
    assert.deepEqual(await cloud.listVolumes(), []);
  });

  it("gives a running machine the disk, by its serial number, and takes it back", async () => {
    await using cloud = await test.open();
    const [machine, second] = [
      await cloud.launch(machineRequest()),
      await cloud.launch(machineRequest()),
    ];
    const volume = await cloud.createVolume(volumeRequest());
    await cloud.attachVolume(volume.id, machine.id);
    await cloud.attachVolume(volume.id, machine.id);
    assert.equal(await holderOf(cloud, volume), machine.id);
    assert.deepEqual(await disksOf(machine), [volume.serial]);
    await assert.rejects(cloud.attachVolume(volume.id, second.id), isInvalid);
    await assert.rejects(cloud.deleteVolume(volume.id), isInvalid);
    // As in another process after a restart.
    await using restarted = await test.open();
    assert.equal(await holderOf(restarted, volume), machine.id);
    await restarted.detachVolume(volume.id, second.id);
    assert.equal(await holderOf(restarted, volume), machine.id);
    await restarted.detachVolume(volume.id, machine.id);
    await restarted.detachVolume(volume.id, machine.id);
    assert.deepEqual(await disksOf(machine), []);
    assert.equal((await stat(volumeFile(volume.id))).nlink, 1);
    assert.equal((await stat(volumeFile(volume.id))).uid, 0);
    await cloud.attachVolume(volume.id, second.id);
    assert.deepEqual(await disksOf(second), [volume.serial]);
    await cloud.terminate(second.id);
    assert.equal(await holderOf(cloud, volume), undefined);
    assert.equal((await stat(volumeFile(volume.id))).nlink, 1);
    await cloud.attachVolume(volume.id, machine.id);
    await cloud.terminate(machine.id);
    await cloud.deleteVolume(volume.id);
  });

  it("knows what does not exist", async () => {
    await using cloud = await test.open();
    const machine = await cloud.launch(machineRequest());
    const volume = await cloud.createVolume(volumeRequest());
    await assert.rejects(cloud.attachVolume("vol-00000000000000000", machine.id), isNotFound);
    await assert.rejects(cloud.attachVolume(volume.id, "i-00000000000000000"), isNotFound);
    await cloud.detachVolume(volume.id, "i-00000000000000000");
    await cloud.detachVolume("vol-00000000000000000", machine.id);
    await cloud.terminate(machine.id);
    await cloud.deleteVolume(volume.id);
  });

  it("lets go of the volumes of a machine that is killed, with and without kip", async () => {
    const volume = await (async () => {
      await using cloud = await test.open();
      return await cloud.createVolume(volumeRequest());
    })();
    for (const isKipThere of [true, false]) {
      let cloud = await test.open();
      const asked = machineRequest();
      const machine = await cloud.launch(asked);
      await cloud.attachVolume(volume.id, machine.id);
      if (!isKipThere) await cloud[Symbol.asyncDispose]();
      const gone = isKipThere ? cloud.waitForTerminated(machine.id) : undefined;
      await kill(machine);
      await gone;
      if (!isKipThere) {
        cloud = await test.open();
        // A killed process still exists for a moment.
        await cloud.waitForTerminated(machine.id);
      }
      assert.equal(await holderOf(cloud, volume), undefined);
      // The same token gives the same ID, but the new machine must not have the old one's disks.
      const again = await cloud.launch(asked);
      assert.equal(again.id, machine.id);
      assert.equal(await holderOf(cloud, volume), undefined);
      assert.deepEqual(await disksOf(again), []);
      await cloud.attachVolume(volume.id, again.id);
      assert.deepEqual(await disksOf(again), [volume.serial]);
      await cloud.terminate(again.id);
      await cloud[Symbol.asyncDispose]();
    }
    await using cloud = await test.open();
    await cloud.deleteVolume(volume.id);
  });

  /** The state after a process was killed at a certain step of attaching or detaching a disk. */
  const halves = ["the record", "the second name", "the file in QEMU", "the device"] as const;
  for (const [count, last] of halves.entries())
    it(`goes on where a process was killed that had got as far as ${last}`, async () => {
      await using cloud = await test.open();
      const machine = await cloud.launch(machineRequest());
      const other = await cloud.launch(machineRequest());
      const volume = await cloud.createVolume(volumeRequest());
      for (const goOn of ["attach", "detach", "end"] as const) {
        await leaveHalf(machine, volume, count);
        await using restarted = await test.open();
        assert.equal(await holderOf(restarted, volume), machine.id);
        await assert.rejects(restarted.attachVolume(volume.id, other.id), isInvalid);
        if (goOn === "attach") {
          await restarted.attachVolume(volume.id, machine.id);
          assert.deepEqual(await disksOf(machine), [volume.serial]);
        }
        if (goOn === "end") await restarted.terminate(machine.id);
        else await restarted.detachVolume(volume.id, machine.id);
        assert.equal(await holderOf(restarted, volume), undefined);
        assert.equal((await stat(volumeFile(volume.id))).nlink, 1);
        assert.equal((await stat(volumeFile(volume.id))).uid, 0);
        await restarted.attachVolume(volume.id, other.id);
        assert.deepEqual(await disksOf(other), [volume.serial]);
        await restarted.detachVolume(volume.id, other.id);
      }
      await cloud.terminate(other.id);
      await cloud.deleteVolume(volume.id);
    });

  it("does not give a disk away that the machine's user still has open or maps", async () => {
    await using cloud = await test.open();
    const machine = await cloud.launch(machineRequest());
    const volume = await cloud.createVolume(volumeRequest());
    const record = path.join(machineFolder(machine.id), "machine.json");
    const { userId } = parseMachineRecord(await readFile(record, "utf8"), record);
    for (const way of ["stay", "map standard input"]) {
      await cloud.attachVolume(volume.id, machine.id);
      await using disk = await open(volumeFile(volume.id), "r+");
      const command = [
        `--reuid=${userId}`,
        "--clear-groups",
        "perl",
        programFile("linger.pl"),
        way,
      ];
      const other = spawn("setpriv", command, { stdio: [disk.fd, "pipe", "inherit"] });
      const ended = once(other, "exit");
      assert.ok(other.stdout);
      await once(other.stdout, "data");
      await assert.rejects(cloud.detachVolume(volume.id, machine.id), /still has it open/);
      assert.equal(await holderOf(cloud, volume), machine.id);
      other.kill("SIGKILL");
      await ended;
      await cloud.detachVolume(volume.id, machine.id);
      assert.equal(await holderOf(cloud, volume), undefined);
    }
    await cloud.terminate(machine.id);
    await cloud.deleteVolume(volume.id);
  });

  it("takes the disks of a machine whose folder is gone when it is opened", async () => {
    const volume = await (async () => {
      await using cloud = await test.open();
      const made = await cloud.createVolume(volumeRequest());
      const record = path.join(test.options.stateDir, "volumes", made.id, "volume.json");
      const text = { ...decodeRecord(JSON.parse(await readFile(record, "utf8")), record) };
      await writeFile(record, JSON.stringify({ ...text, attachedTo: "i-00000000000000000" }));
      return made;
    })();
    await using cloud = await test.open();
    const record = path.join(test.options.stateDir, "volumes", volume.id, "volume.json");
    assert.doesNotMatch(await readFile(record, "utf8"), /attachedTo/);
    await cloud.deleteVolume(volume.id);
  });
});

const isInvalid = (error: unknown): boolean => CloudError.is(error, "CLOUD_INVALID_REQUEST");
const isNotFound = (error: unknown): boolean => CloudError.is(error, "CLOUD_NOT_FOUND");

async function holderOf(cloud: LocalCloud, { id }: Volume): Promise<string | undefined> {
  const found = (await cloud.listVolumes()).find((each) => each.id === id);
  assert.ok(found, `volume ${id} is there`);
  return found.attachedTo;
}

const decodeRecord = decode.map(decode.unknownValue);

async function leaveHalf(machine: Instance, volume: Volume, count: number): Promise<void> {
  const folder = machineFolder(machine.id);
  const record = path.join(path.dirname(volumeFile(volume.id)), "volume.json");
  const { serial } = volume;
  const command = async (execute: string, args: object): Promise<void> => {
    await runCommands(path.join(folder, "ctl.sock"), [{ execute, arguments: { ...args } }]);
  };
  const steps = [
    async () => {
      const text = decodeRecord(JSON.parse(await readFile(record, "utf8")), record);
      await writeFile(record, JSON.stringify({ ...text, attachedTo: machine.id }));
    },
    async () => {
      await mkdir(path.join(folder, "volumes"), { recursive: true, mode: 0o711 });
      await chmod(folder, 0o711);
      await link(volumeFile(volume.id), path.join(folder, "volumes", `${serial}.raw`));
    },
    async () => {
      await chown(volumeFile(volume.id), (await stat(path.join(folder, "disk.qcow2"))).uid, 0);
      await chmod(volumeFile(volume.id), 0o666);
      const file = { driver: "file", filename: `/volumes/${serial}.raw` };
      await command("blockdev-add", { "node-name": serial, driver: "raw", file });
      await chmod(volumeFile(volume.id), 0o600);
    },
    async () => {
      const device = { driver: "scsi-hd", bus: "volumes.0", drive: serial, serial };
      await command("device_add", { ...device, id: serial });
    },
  ];
  for (const step of steps.slice(0, count + 1)) await step();
}

const blockList = decode.list(
  decode.object({ qdev: decode.optional(decode.string), device: decode.optional(decode.string) }),
);

/** Serial numbers of the disks on the controller for volumes, according to QEMU. */
async function disksOf({ id }: Instance): Promise<readonly string[]> {
  const socket = path.join(machineFolder(id), "ctl.sock");
  const [blocks] = await runCommands(socket, [{ execute: "query-block" }]);
  return blockList(blocks, "")
    .map(({ qdev = "" }) => qdev)
    .filter((qdev) => qdev.startsWith("vol"));
}

async function kill({ id }: Instance): Promise<void> {
  for (const pid of await findProcesses(path.join(machineFolder(id), "qemu.pid")))
    signalProcess(pid, "SIGKILL");
}
