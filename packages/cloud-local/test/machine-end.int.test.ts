import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { access, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { runCommand, signalProcess } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { Instance, LaunchRequest } from "@kip/cloud";
import { findProcesses } from "../src/host/processes.ts";
import { parseMachineRecord, type MachineRecord } from "../src/machine/machine-record.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";
import { programFile } from "./support/program-file.ts";

const test = await prepareTestCloud("kiptend", 2);
after(() => test.remove());

const request = (image: string): LaunchRequest => machineRequest({ name: "ends", image });
const pidFile = (id: string): string =>
  path.join(test.options.stateDir, "machines", id, "qemu.pid");

const recordOf = async (id: string): Promise<MachineRecord> => {
  const file = path.join(path.dirname(pidFile(id)), "machine.json");
  return parseMachineRecord(await readFile(file, "utf8"), file);
};

/** Users of the processes that have the argument. */
async function usersOf(argument: string): Promise<readonly number[]> {
  const users = (await findProcesses(argument)).map(async (pid) => {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    return Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
  });
  return await Promise.all(users);
}

/** Represents a QEMU that was broken into: a process of its user with other arguments. */
async function standIn(
  uid: number,
): Promise<{ readonly child: ChildProcess; readonly end: Promise<string> }> {
  const child = spawn("setpriv", [
    `--reuid=${uid}`,
    `--regid=${uid}`,
    "--clear-groups",
    "perl",
    programFile("linger.pl"),
    "change arguments",
  ]);
  const end = once(child, "exit").then(([, signal]) => String(signal));
  await once(child.stdout, "data");
  return { child, end };
}

describe("QemuCloud", { timeout: 120_000 }, () => {
  it("tells when a machine ends by itself, and keeps its console", async () => {
    await using cloud = await test.open();
    const ended = Promise.withResolvers<Instance>();
    cloud.onTerminated(ended.resolve);
    const asked = request("reset");
    const { id } = await cloud.launch(asked);
    const instance = await ended.promise;
    assert.equal(instance.id, id);
    assert.equal(instance.state, "terminated");
    assert.equal(instance.stateReason, "The machine restarted or its kernel stopped");
    assert.equal(await cloud.describe(id), undefined);
    assert.deepEqual(await cloud.list(), []);
    assert.match(await cloud.consoleOutput(id, 4096), /tiny-guest=reset/);
    const left = await readdir(path.dirname(pidFile(id)));
    assert.deepEqual(left.sort(), ["console.log", "machine.json"]);
    await cloud.terminate(id);
    await assert.rejects(cloud.consoleOutput(id, 1), (error) =>
      CloudError.is(error, "CLOUD_NOT_FOUND"),
    );
  });

  it("tells when a machine is killed", async () => {
    await using cloud = await test.open();
    const ended = Promise.withResolvers<Instance>();
    cloud.onTerminated(ended.resolve);
    const { id } = await cloud.launch(request("idle"));
    const gone = cloud.waitForTerminated(id);
    for (const pid of await findProcesses(pidFile(id))) signalProcess(pid, "SIGKILL");
    assert.equal((await ended.promise).stateReason, "The machine's process ended");
    await gone;
    await cloud.terminate(id);
  });

  it("ends what runs as the machine's user or in its control group, whatever its arguments say", async () => {
    await using cloud = await test.open();
    const { id } = await cloud.launch(request("idle"));
    const { userId = 0, controlGroup } = await recordOf(id);
    assert.deepEqual(await usersOf(pidFile(id)), [userId]);
    const ofUser = await standIn(userId);
    const ofGroup = controlGroup === undefined ? undefined : await standIn(userId + 1e6);
    if (controlGroup !== undefined && ofGroup !== undefined)
      await writeFile(path.join(controlGroup, "cgroup.procs"), String(ofGroup.child.pid));
    await cloud.terminate(id);
    assert.equal(await ofUser.end, "SIGTERM");
    if (ofGroup) assert.equal(await ofGroup.end, "SIGTERM");
    if (controlGroup !== undefined) await assert.rejects(access(controlGroup));
  });

  it("terminates a machine on a disk that is full", async () => {
    const folder = path.join(test.folder, "full");
    await mkdir(folder);
    await runCommand("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]);
    try {
      // A separate network, because networks belong to state folders.
      const network = { namespace: "kiptfull", range: "198.18.160.0/21" };
      await using cloud = await test.open({
        ...network,
        stateDir: folder,
        diskReserveBytes: 2 ** 20,
      });
      const { id } = await cloud.launch(request("idle"));
      const asked = { token: "full", name: "full", sizeBytes: 2 ** 20, tags: {} };
      const volume = await cloud.createVolume(asked);
      await cloud.attachVolume(volume.id, id);
      const console = path.join(folder, "machines", id, "console.log");
      await runCommand("sh", ["-c", 'cat /dev/zero >>"$1" || true', "sh", console]);
      await cloud.terminate(id);
      assert.deepEqual(await cloud.list(), []);
      assert.equal((await cloud.listVolumes())[0]?.attachedTo, undefined);
      assert.deepEqual(await readdir(path.join(folder, "machines")), []);
      await cloud.removeNetwork();
    } finally {
      await runCommand("umount", [folder]);
    }
  });

  it("removes a machine whose record cannot be read, and knows the others", async () => {
    const [lost, kept] = await (async () => {
      await using cloud = await test.open();
      return [await cloud.launch(request("idle")), await cloud.launch(request("idle"))];
    })();
    const { controlGroup } = await recordOf(lost.id);
    await writeFile(path.join(path.dirname(pidFile(lost.id)), "machine.json"), "");
    await using cloud = await test.open();
    assert.deepEqual(await cloud.list(), [kept]);
    assert.deepEqual(await findProcesses(pidFile(lost.id)), []);
    if (controlGroup !== undefined) await assert.rejects(access(controlGroup));
    await cloud.terminate(kept.id);
    assert.deepEqual(await readdir(path.join(test.options.stateDir, "machines")), []);
  });

  it("gives no machine the user of a process that lives", async () => {
    await using cloud = await test.open();
    const first = await cloud.launch(request("idle"));
    const { userId = 0, slot } = await recordOf(first.id);
    await cloud.terminate(first.id);
    const other = await standIn(userId);
    try {
      const second = await cloud.launch(request("idle"));
      const record = await recordOf(second.id);
      assert.notEqual(record.slot, slot);
      assert.notEqual(record.userId, userId);
      await cloud.terminate(second.id);
      assert.equal(other.child.signalCode, null);
    } finally {
      other.child.kill("SIGKILL");
      await other.end;
    }
    const third = await cloud.launch(request("idle"));
    assert.equal((await recordOf(third.id)).slot, slot);
    await cloud.terminate(third.id);
  });

  it("does not list a machine that was killed while no kip ran", async () => {
    const id = await (async () => {
      await using cloud = await test.open();
      return (await cloud.launch(request("idle"))).id;
    })();
    const pids = await findProcesses(pidFile(id));
    assert.equal(pids.length, 1);
    for (const pid of pids) signalProcess(pid, "SIGKILL");
    await using cloud = await test.open();
    await cloud.waitForTerminated(id);
    assert.deepEqual(await cloud.list(), []);
  });

  it("starts again with the token of a machine that has ended", async () => {
    await using cloud = await test.open();
    const asked = request("idle");
    const first = await cloud.launch(asked);
    const gone = cloud.waitForTerminated(first.id);
    for (const pid of await findProcesses(pidFile(first.id))) signalProcess(pid, "SIGKILL");
    await gone;
    const second = await cloud.launch(asked);
    assert.equal(second.state, "running");
    assert.equal((await findProcesses(pidFile(second.id))).length, 1);
    await cloud.terminate(second.id);
  });

  it("leaves nothing of a machine that QEMU refuses", async () => {
    await using cloud = await test.open({ qemu: "/bin/false" });
    const folders = async () => await readdir(path.join(test.options.stateDir, "machines"));
    const before = await folders();
    await assert.rejects(cloud.launch(request("idle")), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_UNAVAILABLE"));
      return /Cannot start machine "ends": QEMU ended with code 1/.test(String(error));
    });
    assert.deepEqual(await folders(), before);
  });

  it("refuses a machine above the memory limit, with figures, and leaves nothing", async () => {
    await using cloud = await test.open({ memoryBytes: 1100 * 2 ** 20 });
    const first = await cloud.launch({ ...request("idle"), instanceType: "local.nano" });
    const second = cloud.launch({ ...request("idle"), instanceType: "local.nano" });
    const running = [first.id, (await second).id];
    await assert.rejects(
      cloud.launch({ ...request("idle"), instanceType: "local.nano" }),
      (error) => {
        assert.ok(CloudError.is(error, "CLOUD_QUOTA"));
        return /it needs \d+ MiB of memory and \d+ MiB of the limit of 1100 MiB are left/.test(
          String(error),
        );
      },
    );
    assert.equal((await cloud.list()).length, 2);
    for (const id of running) await cloud.terminate(id);
  });

  it("refuses a machine for which there is no disk", async () => {
    await using cloud = await test.open({ diskReserveBytes: 2 ** 60 });
    await assert.rejects(
      cloud.launch({ ...request("idle"), rootDiskBytes: 2 ** 59 }),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") && /MiB of free disk/.test(String(error)),
    );
    assert.deepEqual(await cloud.list(), []);
  });
});
