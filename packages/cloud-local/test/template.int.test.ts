import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import {
  chmod,
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { createLogger, runCommand } from "@kip/base";
import type { Instance, LaunchImages, LaunchRequest } from "@kip/cloud";
import { parseOrder, type CloneIdentity } from "@kip/cloud-init";
import { sample } from "@kip/testing";
import { findProcesses } from "../src/host/processes.ts";
import { namespaceOf } from "../src/network/namespace.ts";
import type { LocalCloud, LocalCloudOptions } from "../src/index.ts";
import { writeTalkingImage, type TalkingGuest } from "./support/talking-image.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kipttpl", 4);
after(() => test.remove());
for (const guest of ["good", "refuse", "hang-up", "die", "never"] as const)
  await writeTalkingImage(test.options.imagesDir, guest, guest);

const type = "local.nano";
const templates = path.join(test.options.stateDir, "templates");
await mkdir(templates, { recursive: true, mode: 0o700 });

const request = (image: string, name = "machine"): LaunchRequest => machineRequest({ image, name });

/** A cloud and its warnings. */
async function openCloud(
  changes: Partial<LocalCloudOptions> = {},
): Promise<{ readonly cloud: LocalCloud; readonly warnings: readonly string[] }> {
  const warnings: string[] = [];
  const logger = createLogger({ level: "warn", write: (line) => warnings.push(line) });
  return { cloud: await test.open({ logger, ...changes }), warnings };
}

/** Checks after each change in a folder, until the check succeeds. */
async function eventually<T>(folder: string, look: () => Promise<T | undefined>): Promise<T> {
  const seen = Promise.withResolvers<T>();
  const lookOnce = (): void =>
    void look().then((found) => {
      if (found !== undefined) seen.resolve(found);
    }, seen.reject);
  const watcher = watch(folder, lookOnce);
  const timer = setTimeout(() => seen.reject(new Error(`Not seen in ${folder}`)), 60_000);
  try {
    lookOnce();
    return await seen.promise;
  } finally {
    clearTimeout(timer);
    watcher.close();
  }
}

/** The guest's output after a word, once it is there. The firmware's last line has no end. */
async function told(cloud: LocalCloud, { id }: Instance, word: string): Promise<string> {
  const line = new RegExp(`${word} ?(.*)\\r?\\n`);
  return await eventually(path.join(test.options.stateDir, "machines", id), async () =>
    line.exec(await cloud.consoleOutput(id, 65_536))?.[1]?.trim(),
  );
}

function identityIn(line: string): CloneIdentity {
  const order = parseOrder(line);
  assert.ok(order.kind === "become");
  return order.identity;
}

/** Devices of machines in the cloud's network, sorted. */
async function machineDevices(): Promise<readonly string[]> {
  const { stdout } = await namespaceOf("kipttpl").run("ip", ["-o", "link"]);
  const names = [...stdout.matchAll(/: (cell\d+):/g)].map(([, name = ""]) => name);
  return names.sort((a, b) => a.localeCompare(b, "en"));
}

/** An image whose name determines the guest's behaviour. */
function imagesNamed(name: string): LaunchImages {
  return { references: [`registry.test/${name}@sha256:${"0".repeat(64)}`], pull: "{}" };
}

/** The folder of the only template. */
async function templateFolder(): Promise<string> {
  const names = (await readdir(templates)).filter((name) => !name.startsWith("."));
  assert.equal(names.length, 1);
  return path.join(templates, names[0] ?? "");
}

/** Changes a file that only root can write to. This test runs as root. */
async function overwrite(file: string, position: number): Promise<void> {
  const handle = await open(file, "r+");
  await handle.write("damage", position);
  await handle.close();
}

async function removeTemplates(): Promise<void> {
  for (const name of await readdir(templates))
    if (!name.startsWith(".")) await rm(path.join(templates, name), { recursive: true });
}

/** Everything except templates and the lock. */
async function drafts(): Promise<readonly string[]> {
  return (await readdir(templates)).filter((name) => /^\.(?!lock$)/.test(name));
}

describe("Templates", { timeout: 600_000 }, () => {
  it("give machines that share nothing that must be their own", async () => {
    const { cloud, warnings } = await openCloud();
    await using _cloud = cloud;
    await cloud.prepareTemplate(type, "good", 0);
    const machines = await Promise.all(
      ["one", "two"].map(async (name) => await cloud.launch(request("good", name))),
    );
    assert.deepEqual(
      machines.map((machine) => machine.startedFrom),
      ["template", "template"],
    );
    const [one, two] = await Promise.all(
      machines.map(async (machine) => identityIn(await told(cloud, machine, "identity"))),
    );
    assert.ok(one && two);
    assert.deepEqual([one.hostname, two.hostname], ["one", "two"]);
    assert.deepEqual(
      [one, two].map(({ network }) => network.address.split("/")[0]),
      machines.map(({ managementIp }) => managementIp),
    );
    for (const key of ["instanceId", "machineId", "entropy"] as const)
      assert.notEqual(one[key], two[key]);
    assert.notEqual(one.network.mac, two.network.mac);
    assert.ok(Math.abs(one.unixMs - Date.now()) < 60_000);
    // Each machine has written to its disk, and found the image's content.
    assert.deepEqual(await Promise.all(machines.map((machine) => told(cloud, machine, "disk"))), [
      "",
      "",
    ]);
    assert.deepEqual(warnings, []);
    // Another process sees the same.
    await using other = await test.open();
    assert.deepEqual(
      (await other.list()).map(({ startedFrom }) => startedFrom),
      ["template", "template"],
    );
    for (const { id } of machines) await cloud.terminate(id);
  });

  it("run without privileges, in an empty folder, with few system calls", async () => {
    await using cloud = await test.open();
    const { id, startedFrom } = await cloud.launch(request("good"));
    assert.equal(startedFrom, "template");
    const folder = path.join(test.options.stateDir, "machines", id);
    const [pid] = await findProcesses(path.join(folder, "qemu.pid"));
    assert.ok(pid !== undefined);
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    const field = (name: string): string | undefined =>
      new RegExp(`^${name}:\\s*(.*)$`, "m").exec(status)?.[1];
    assert.match(String(field("Uid")), /^(19\d{8})\t\1\t\1\t\1$/);
    assert.match(String(field("Gid")), /^(19\d{8})\t\1\t\1\t\1$/);
    assert.equal(field("NoNewPrivs"), "1");
    assert.equal(field("Seccomp"), "2");
    assert.match(String(field("CapEff")), /^0+$/);
    assert.match(String(field("CapPrm")), /^0+$/);
    const { stdout } = await runCommand("readlink", [`/proc/${pid}/root`]);
    assert.equal(stdout.trim(), folder);
    // This user cannot access anything in the folder.
    const uid = String(field("Uid")).split("\t")[0] ?? "";
    const asUser = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"] as const;
    const script = `cat machine.json || echo x >machine.json || echo x >disk.qcow2 || ls . || touch new`;
    await assert.rejects(
      runCommand(asUser[0], [...asUser.slice(1), "sh", "-c", script], { cwd: folder }),
    );
    await cloud.terminate(id);
  });

  it("are made in the background when the first machine has booted", async () => {
    await removeTemplates();
    const { cloud, warnings } = await openCloud();
    await using _cloud = cloud;
    const first = await cloud.launch(request("good"));
    assert.equal(first.startedFrom, "boot");
    await cloud.prepareTemplate(type, "good", 0); // waits for it
    const second = await cloud.launch(request("good"));
    assert.equal(second.startedFrom, "template");
    assert.deepEqual(warnings, []);
    for (const { id } of [first, second]) await cloud.terminate(id);
  });

  it("have images once a machine that was to have them has been copied", async () => {
    await using base = await test.open();
    await base.prepareTemplate(type, "good", 0);
    const { cloud, warnings } = await openCloud();
    await using _cloud = cloud;
    const images = imagesNamed("app");
    const first = await cloud.launch({ ...request("good"), images });
    assert.equal(first.startedFrom, "template");
    await cloud.prepareTemplate(type, "good", 0, { images }); // waits for it
    const second = await cloud.launch({ ...request("good"), images });
    assert.equal(second.startedFrom, "image-template");
    assert.equal((await cloud.launch(request("good"))).startedFrom, "template");
    const [one, two] = await Promise.all(
      [first, second].map(async (each) => identityIn(await told(cloud, each, "identity"))),
    );
    assert.ok(one && two);
    const order = parseOrder(await told(cloud, second, "preload"));
    assert.ok(order.kind === "fetch");
    assert.deepEqual(order.preload.images, images.references);
    assert.ok(Math.abs(order.preload.unixMs - Date.now()) < 60_000);
    // Its network address was not that of any machine.
    const addresses = [order.preload, one, two].map(({ network }) => network.address);
    assert.equal(new Set(addresses).size, 3);
    assert.deepEqual(await machineDevices(), ["cell0", "cell1", "cell2"]);
    assert.deepEqual(warnings, []);
    for (const { id } of await cloud.list()) await cloud.terminate(id);
  });

  it("have images that are to be prepared, before a machine is to have them", async () => {
    const { cloud, warnings } = await openCloud();
    await using _cloud = cloud;
    const images = imagesNamed("later");
    const known = new Set(await readdir(templates));
    cloud.prepareImages?.({ instanceType: type, image: "good", rootDiskBytes: 0, images });
    await eventually(templates, async () =>
      (await readdir(templates)).find((name) => !name.startsWith(".") && !known.has(name)),
    );
    const machine = await cloud.launch({ ...request("good"), images });
    assert.equal(machine.startedFrom, "image-template");
    assert.deepEqual(warnings, []);
    await cloud.terminate(machine.id);
  });

  it("are copied without images that cannot be had, which is said once", async () => {
    const { cloud, warnings } = await openCloud();
    await using _cloud = cloud;
    const images = imagesNamed("unknown");
    await assert.rejects(cloud.prepareTemplate(type, "good", 0, { images }), /no such image/);
    const machine = await cloud.launch({ ...request("good"), images });
    assert.equal(machine.startedFrom, "template");
    await assert.rejects(cloud.prepareTemplate(type, "good", 0, { images }), /failed before/);
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.match(String(warnings[0]), /No machine template is made.*no such image/);
    assert.deepEqual(await drafts(), []);
    await cloud.terminate(machine.id);
    await removeTemplates();
  });

  const damages: readonly (readonly [string, RegExp, (folder: string) => Promise<void>])[] = [
    [
      "whose memory was cut off",
      /its memory has another size/,
      async (folder) => await truncate(path.join(folder, "memory"), 2 ** 20),
    ],
    [
      "whose memory was written to",
      /its memory was changed/,
      async (folder) => await overwrite(path.join(folder, "memory"), 2 ** 24),
    ],
    [
      "whose disk was written to",
      /its disk was changed/,
      async (folder) => await overwrite(path.join(folder, "disk.qcow2"), 2 ** 17),
    ],
    [
      "whose device state was written to",
      /its device state has another content/,
      async (folder) => await overwrite(path.join(folder, "state"), 2 ** 17),
    ],
    [
      "without a device state",
      /its device state cannot be read/,
      async (folder) => await rm(path.join(folder, "state")),
    ],
    [
      "whose description is no JSON",
      /its description cannot be read/,
      async (folder) => await writeFile(path.join(folder, "template.json"), "{"),
    ],
    [
      "whose memory changed while the host was off",
      /its memory has changed/,
      async (folder) => await changeWhileOff(folder),
    ],
  ];
  for (const [name, reason, damage] of sample(damages, 2)) {
    it(`is not used ${name}, which is said once`, async () => {
      await using preparing = await test.open();
      await preparing.prepareTemplate(type, "good", 0);
      await damage(await templateFolder());
      const { cloud, warnings } = await openCloud();
      await using _cloud = cloud;
      const machine = await cloud.launch(request("good"));
      assert.equal(machine.startedFrom, "boot");
      // The rest of the work, and the next template, happen in the background.
      await cloud.prepareTemplate(type, "good", 0);
      const next = await cloud.launch(request("good"));
      assert.equal(next.startedFrom, "template");
      assert.equal(warnings.length, 1, warnings.join("\n"));
      assert.match(String(warnings[0]), reason);
      assert.match(String(warnings[0]), /"remedy":"Nothing needs to be done/);
      for (const { id } of [machine, next]) await cloud.terminate(id);
    });
  }

  it("are used again after the host was off, once their contents are verified", async () => {
    await using preparing = await test.open();
    await preparing.prepareTemplate(type, "good", 0);
    const file = path.join(await templateFolder(), "template.json");
    const record = JSON.parse(await readFile(file, "utf8")) as Record<string, unknown>;
    await writeFile(file, JSON.stringify({ ...record, verifiedBootId: "earlier" }));
    const { cloud, warnings } = await openCloud();
    await using _cloud = cloud;
    const machine = await cloud.launch(request("good"));
    assert.equal(machine.startedFrom, "boot");
    await cloud.prepareTemplate(type, "good", 0);
    assert.equal(JSON.parse(await readFile(file, "utf8")).created, record["created"]);
    const next = await cloud.launch(request("good"));
    assert.equal(next.startedFrom, "template");
    assert.deepEqual(warnings, []);
    for (const { id } of [machine, next]) await cloud.terminate(id);
  });

  const failures: readonly (readonly [TalkingGuest, RegExp])[] = [
    ["refuse", /it said \\"cannot\\" instead of \\"ready\\"/],
    ["hang-up", /its agent ended/],
    ["die", /did not start/],
  ];
  for (const [guest, reason] of sample(failures, 1)) {
    it(`boots a machine whose copy does "${guest}", in the same launch`, async () => {
      const { cloud, warnings } = await openCloud();
      await using _cloud = cloud;
      await cloud.prepareTemplate(type, guest, 0);
      const machine = await cloud.launch(request(guest));
      assert.equal(machine.startedFrom, "boot");
      await told(cloud, machine, "booted");
      const about = warnings.filter((line) => line.includes("a copy of it did not start"));
      assert.equal(about.length, 1, warnings.join("\n"));
      assert.match(String(about[0]), reason);
      await cloud.terminate(machine.id);
    });
  }

  it("is not used by another QEMU, nor by another image of the same ID", async () => {
    await using preparing = await test.open();
    await preparing.prepareTemplate(type, "good", 0);
    const qemu = path.join(test.folder, "qemu");
    const program =
      'case "$1" in --version) echo "QEMU emulator version 7.2.99" ;; *) exec qemu-system-x86_64 "$@" ;; esac';
    await writeFile(qemu, `#!/bin/sh\n${program}\n`);
    await chmod(qemu, 0o755);
    const updated = await openCloud({ qemu });
    await using _updated = updated.cloud;
    const one = await updated.cloud.launch(request("good"));
    assert.equal(one.startedFrom, "boot");
    assert.match(String(updated.warnings), /made with another (.*, )?qemu/);
    await updated.cloud.terminate(one.id);
    await utimes(path.join(test.options.imagesDir, "good", "initrd"), 1, 1);
    const changed = await openCloud();
    await using _changed = changed.cloud;
    const two = await changed.cloud.launch(request("good"));
    assert.equal(two.startedFrom, "boot");
    assert.match(String(changed.warnings), /made with another (.*, )?initrd/);
    await changed.cloud.terminate(two.id);
  });

  for (const [what, build] of [
    ["that boots", { prepareTemplate: "never" }],
    ["that fetches images", { prepareTemplate: "good", images: imagesNamed("endless") }],
  ] as const) {
    it(`leave nothing of a build ${what} and whose process was killed`, async () => {
      await using base = await test.open();
      await base.prepareNetwork();
      await base.prepareTemplate(type, "good", 0);
      const act = path.join(import.meta.dirname, "support/act.ts");
      const acts = JSON.stringify({ options: test.options, ...build });
      const child = spawn(process.execPath, [act, acts], {
        stdio: ["ignore", "ignore", "inherit"],
      });
      const exited = once(child, "exit");
      const draft = await draftThatWaits();
      child.kill("SIGKILL");
      await exited;
      const pidFile = path.join(templates, draft, "qemu.pid");
      assert.equal((await findProcesses(pidFile)).length, 1);
      await using _cloud = await test.open();
      assert.deepEqual(await findProcesses(pidFile), []);
      assert.deepEqual(await drafts(), []);
      assert.deepEqual(await machineDevices(), []);
    });
  }

  it("are no longer made when the cloud is closed, or terminates all", async () => {
    const cloud = await test.open();
    const aborted = cloud.prepareTemplate(type, "never", 0);
    aborted.catch(() => {}); // asserted below
    await draftThatWaits();
    await cloud.terminateAll();
    await assert.rejects(aborted, /Cannot make a template: kip ends/);
    const again = cloud.prepareTemplate(type, "never", 0);
    again.catch(() => {}); // asserted below
    const draft = await draftThatWaits();
    await cloud[Symbol.asyncDispose]();
    await assert.rejects(again, /Cannot make a template: kip ends/);
    assert.deepEqual(await findProcesses(path.join(templates, draft, "qemu.pid")), []);
    assert.deepEqual(await drafts(), []);
  });

  for (const [name, sizeMiB, fill] of [
    ["is too small", 64, false],
    ["gets full meanwhile", 740, true],
  ] as const) {
    it(`are not made on a disk that ${name}, and machines run`, async () => {
      await using disk = await mountDisk(sizeMiB);
      const { cloud, warnings } = await openCloud({ templatesDir: disk.folder });
      await using _cloud = cloud;
      const making = cloud.prepareTemplate(type, "good", 0);
      making.catch(() => {}); // asserted below
      if (fill) {
        await eventually(disk.folder, async () =>
          (await readdir(disk.folder)).find((entry) => entry.startsWith(".draft-")),
        );
        await runCommand("sh", ["-c", `cat /dev/zero >"${disk.folder}/.filling" || true`]);
      }
      await assert.rejects(making, fill ? /Cannot make a template/ : /too little disk is free/);
      const machine = await cloud.launch(request("good"));
      assert.equal(machine.startedFrom, "boot");
      await told(cloud, machine, "booted");
      assert.equal(warnings.length, 1, warnings.join("\n"));
      assert.match(String(warnings[0]), /No machine template is made/);
      await cloud.terminate(machine.id);
    });
  }

  it("are removed when they take more than they may", async () => {
    await removeTemplates();
    const { cloud, warnings } = await openCloud({ templateBytes: 2 ** 20 });
    await using _cloud = cloud;
    await cloud.prepareTemplate(type, "refuse", 0);
    assert.deepEqual(await readdir(templates), [".lock"]);
    assert.match(String(warnings), /bigger than all templates together may be/);
    await assert.rejects(cloud.prepareTemplate(type, "refuse", 0), /it failed before/);
  });
});

/** A separate small file system. */
async function mountDisk(sizeMiB: number): Promise<AsyncDisposable & { readonly folder: string }> {
  const folder = path.join(test.folder, `disk-${sizeMiB}`);
  await mkdir(folder);
  await runCommand("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m`, "tmpfs", folder]);
  return {
    folder,
    async [Symbol.asyncDispose]() {
      await runCommand("umount", [folder]);
    },
  };
}

/** Changes the disk like a fault, or a person with another system: no file time shows it. */
async function changeWhileOff(folder: string): Promise<void> {
  const memory = path.join(folder, "memory");
  await overwrite(memory, 2 ** 24);
  const file = path.join(folder, "template.json");
  const record = JSON.parse(await readFile(file, "utf8")) as { memory: Record<string, unknown> };
  const { stdout } = await runCommand("stat", ["--format=%.9Y %.9Z", memory]);
  const [modified, changed] = stdout
    .trim()
    .split(" ")
    .map((time) => time.replace(".", ""));
  const sealed = { ...record.memory, modified, changed };
  await writeFile(file, JSON.stringify({ ...record, memory: sealed, verifiedBootId: "earlier" }));
}

/** The draft of a template whose machine has booted and is waiting. */
async function draftThatWaits(): Promise<string> {
  const draft = await eventually(templates, async () => (await drafts())[0]);
  const folder = path.join(templates, draft);
  return await eventually(folder, async () => {
    const said = await readFile(path.join(folder, "console.log"), "utf8").catch(() => "");
    return said.includes("waiting") ? draft : undefined;
  });
}
