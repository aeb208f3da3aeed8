// Templates and their clones, by QEMU. Needs root, because building images does.
import assert from "node:assert/strict";
import path from "node:path";
import { before, suite, test } from "node:test";
import { AgentClient, cellServerName, type CellIdentity } from "@kip/agent-api";
import { decode, silentLogger } from "@kip/base";
import { buildCellImage, type CellImage } from "@kip/cell-image";
import type { CloneIdentity } from "@kip/cloud-init";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import { temporaryFolder, freePort } from "@kip/testing";
import { makeTemplate, startCopy, type Template } from "./support/template.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const skip = process.getuid?.() === 0 ? false : "the image is built by root only";

const decodeDraw = decode.object({
  bytes: decode.string,
  bytesOfPool: decode.string,
  uuid: decode.string,
  ticketKeys: decode.string,
});
const decodeFacts = decode.object({
  time: decode.integer,
  isFirst: decode.boolean,
  drawn: decode.optional(decodeDraw),
  copied: decode.number,
  own: decodeDraw,
  kernelUuid: decode.string,
  bootId: decode.string,
  startedAtMs: decode.number,
  hostname: decode.string,
  hostnameFile: decode.string,
  machineId: decode.string,
  resolvConf: decode.string,
  interface: decode.optional(
    decode.object({ mac: decode.string, cidr: decode.optional(decode.string) }),
  ),
  routes: decode.string,
  file: decode.string,
});
const decodePreloadFacts = decode.object({
  time: decode.integer,
  bytes: decode.string,
  input: decode.string,
  routes: decode.string,
});
type Facts = ReturnType<typeof decodeFacts>;

async function build(agentEntry: string): Promise<CellImage> {
  return await buildCellImage({
    cacheDir,
    agentEntry: path.join(import.meta.dirname, agentEntry),
    onProgress: (message) => console.log(message),
  });
}

function userDataOf(config: object): string {
  return `#cloud-config\n${JSON.stringify(config)}`;
}

suite("copies of a template", { skip, timeout: 280_000 }, () => {
  let image: CellImage;
  before(async () => {
    image = await build("probe-agent.ts");
  });

  test("are machines of their own, also if the template has been online", async () => {
    using directory = temporaryFolder();
    const startedMs = Date.now();
    const template = await makeTemplate(image, path.join(directory.path, "template"), ["app"]);
    const preload = decodePreloadFacts(JSON.parse(template.preload[0] ?? ""), "preload");
    assert.deepEqual(JSON.parse(preload.input), { images: ["app"], pull: "{}" });
    assert.ok(preload.time >= startedMs && preload.time <= Date.now() + 1000, "the time is wrong");
    assert.match(preload.routes, /^eth0\t00000000\t0202000A\t0003/m);
    const copies = [await look(template, "one"), await look(template, "two")] as const;
    for (const copy of copies) {
      const { identity, first, again } = copy;
      assert.equal(first.hostname, identity.hostname);
      assert.equal(first.hostnameFile, identity.hostname);
      assert.equal(first.machineId, identity.machineId);
      assert.equal(first.interface?.mac, identity.network.mac);
      assert.equal(first.interface.cidr, identity.network.address);
      assert.match(first.routes, /^eth0\t00000000\t0202000A\t0003/m);
      assert.equal(first.resolvConf, "nameserver 10.0.2.3\nnameserver 10.0.2.4");
      assert.equal(first.file, `for ${identity.hostname}`);
      assert.ok(first.time >= identity.unixMs, "the clock is behind");
      assert.ok(first.time <= copy.heardAtMs + 1000, "the clock is ahead");
      // An agent that is restarted after a crash gets no identity, and needs none.
      assert.equal(again.isFirst, false);
      assert.equal(again.machineId, identity.machineId);
      assert.equal(again.startedAtMs, first.startedAtMs);
      assert.ok(first.startedAtMs > 0);
    }
    const [one, two] = copies.map(({ first }) => first) as [Facts, Facts];
    // Both clones continue from the same state of the same process ...
    assert.deepEqual(one.drawn, two.drawn);
    assert.equal(one.copied, two.copied);
    // ... but their secrets differ from each other, and from the template's.
    for (const key of ["bytes", "bytesOfPool", "uuid", "ticketKeys"] as const) {
      const drawn = [one.drawn?.[key], one.own[key], two.own[key]];
      assert.ok(!drawn.includes(preload.bytes));
      assert.equal(new Set(drawn).size, 3, key);
    }
    assert.notEqual(one.kernelUuid, two.kernelUuid);
    assert.notEqual(one.bootId, two.bootId);
  });

  test("would share OpenSSL's random numbers if their clock were the template's", async () => {
    // This is why the template's clock must be far in the past: OpenSSL takes new entropy when much time has passed.
    using directory = temporaryFolder();
    const template = await makeTemplate(image, path.join(directory.path, "template"));
    const unixMs = Date.UTC(2020, 0, 1, 0, 5);
    const one = await look(template, "one", unixMs);
    const two = await look(template, "two", unixMs);
    assert.equal(one.first.own.bytes, two.first.own.bytes);
  });
});

suite("a copy with the agent", { skip, timeout: 280_000 }, () => {
  test("listens as the cell it is and has nothing of the rehearsal", async () => {
    const image = await build("../src/main.ts");
    assert.equal(image.template, true);
    using directory = temporaryFolder();
    const template = await makeTemplate(image, path.join(directory.path, "template"));
    const { kip, identity } = await credentials();
    const report = `for what in ${places.join(" ")}; do echo "left: $what"; done`;
    const userData = userDataOf({
      write_files: [{ path: "/var/lib/itzo/identity.json", content: JSON.stringify(identity) }],
      runcmd: [`{ ${report}; echo "seen: all"; } >/dev/console`],
    });
    const hostPort = await freePort();
    const { machine, ready } = await startCopy(template, "one", { userData, hostPort });
    await using _machine = machine;
    assert.equal(await ready, "ready");
    await machine.told("seen: all", 1);
    const left = await machine.told("left: ", 1);
    assert.deepEqual(
      left.filter((place) => !expected.has(place) && !waitingMonitor.test(place)),
      [],
    );
    assert.equal(left.filter((place) => waitingMonitor.test(place)).length, 2);
    await using client = await AgentClient.connect({
      address: "127.0.0.1",
      port: hostPort,
      cellName: identity.cellName,
      ca: identity.ca,
      ...kip,
      connectTimeoutMs: 60_000,
      logger: silentLogger,
    });
    const info = await client.info();
    assert.equal(info.cellName, identity.cellName);
    assert.equal(info.podUid, undefined);
    const { identity: identityMs = 0, listening = 0 } = info.bootTimingsMs;
    assert.ok(identityMs > 0 && listening >= identityMs);
  });
});

/** Where a rehearsal could leave something, as shell patterns. A pattern without a match is kept as it is. */
const places = [
  "/dev/shm/*",
  "/dev/shm/kip-pod/*",
  "/run/itzo/*",
  "/run/itzo/oci/containers/*",
  "/run/netns/*",
  "/sys/class/net/*",
  "/sys/fs/cgroup/kip/*/",
  "/var/lib/itzo/*",
  "/var/lib/itzo/*/*",
  "/var/lib/itzo/images/*/*",
];

/** The files that every agent has there, and those that an agent prepares while it waits for its pod. */
const expected = new Set([
  ...places,
  "/dev/shm/kip-pod",
  "/run/itzo/files",
  "/run/itzo/oci",
  "/run/netns/pod",
  "/sys/class/net/eth0",
  "/sys/class/net/kip-pod",
  "/sys/class/net/lo",
  "/sys/fs/cgroup/kip/monitors/",
  "/var/lib/itzo/identity.json",
  "/var/lib/itzo/images",
  "/var/lib/itzo/logs",
  ...["images", "names", "tmp", "trees"].map((folder) => `/var/lib/itzo/images/${folder}`),
]);

/** The folder of the monitor that waits for the pod's first container, and that of its log. */
const waitingMonitor = /^\/(?:run\/itzo\/oci\/containers|var\/lib\/itzo\/logs)\/[\da-f]{32}$/;

async function credentials(): Promise<{ readonly kip: KeyPair; readonly identity: CellIdentity }> {
  const cellName = "copy-1";
  const validMs = 3_600_000;
  const authority = await CertificateAuthority.create({ commonName: "kip", validMs });
  const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs });
  const dnsNames = [cellServerName(cellName)];
  const server = await authority.issue({
    commonName: cellName,
    dnsNames,
    usages: ["server"],
    validMs,
  });
  return { kip, identity: { cellName, ca: authority.certificate, ...server } };
}

interface Copy {
  readonly identity: CloneIdentity;
  readonly first: Facts;
  readonly again: Facts;
  readonly heardAtMs: number;
}

async function look(template: Template, name: string, unixMs?: number): Promise<Copy> {
  const userData = userDataOf({
    write_files: [{ path: "/var/lib/itzo/file", content: `for ${name}` }],
  });
  const started = await startCopy(template, name, {
    userData,
    ...(unixMs !== undefined && { unixMs }),
  });
  await using machine = started.machine;
  assert.equal(await started.ready, "ready");
  await machine.told("probe: ", 1);
  const heardAtMs = Date.now();
  const [first, again] = (await machine.told("probe: ", 2)).map((line) =>
    decodeFacts(JSON.parse(line), "probe"),
  );
  assert.ok(first && again);
  return { identity: started.identity, first, again, heardAtMs };
}
