// Builds EC2 images through the EBS direct API, with the real SDKs against moto behind the proxy.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import path from "node:path";
import { after, afterEach, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { eventually, temporaryFolder } from "@kip/testing";
import { buildAmi, type BuildAmiOptions } from "../src/ami/index.ts";
import { itemsOf, parseXml, textOf } from "../src/emulator/xml.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { imageBuildPolicy } from "../src/policy/index.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

const skip = await whyNoMoto();
if (skip === undefined) await describeAmis();
else it("EC2: images", { skip }, () => {});

const MiB = 2 ** 20;
const blockBytes = MiB / 2;

async function describeAmis(): Promise<void> {
  const ec2 = await openTestEc2();
  after(() => ec2[Symbol.asyncDispose]());
  afterEach(() => ec2.proxy.faults.clear());
  const folder = temporaryFolder();
  after(() => folder[Symbol.dispose]());
  const { proxy } = ec2;

  /** A disk of slightly more than 24 MiB. A quarter of it has content. */
  const makeDisk = async (name: string): Promise<string> => {
    const file = path.join(folder.path, name);
    await using handle = await open(file, "w");
    for (const [at, bytes] of [
      [0, 700_000],
      [5 * MiB - 10, 20],
      [8 * MiB, 4 * MiB],
      [24 * MiB, 1000],
    ] as const) {
      const content = Buffer.alloc(bytes, createHash("sha256").update(`${name}${at}`).digest());
      await handle.write(content, 0, bytes, at);
    }
    return file;
  };
  /** Actions of all builds. */
  const builds: string[] = [];
  const build = async (disk: string, changes: Partial<BuildAmiOptions> = {}) => {
    const before = proxy.actions.length;
    const built = buildAmi({
      disk,
      imageId: path.basename(disk),
      architecture: "x86_64",
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
      endpointURL: ec2.endpointURL,
      ebsEndpointURL: ec2.endpointURL,
      pollMs: 20,
      retryMs: 5,
      ...changes,
    });
    return await built.finally(() => builds.push(...proxy.actions.slice(before)));
  };
  /** Snapshots of builds with their states in EC2. */
  const snapshotsOf = async (disk: string) => {
    const url = new URLSearchParams({
      Action: "DescribeSnapshots",
      Version: "2016-11-15",
      "Filter.1.Name": "tag:KipImage",
      "Filter.1.Value.1": path.basename(disk),
    });
    const answer = await fetch(ec2.endpointURL, { method: "POST", body: url.toString() });
    return itemsOf(parseXml(await answer.text()), "snapshotSet").map((item) => ({
      id: textOf(item, "snapshotId"),
      state: textOf(item, "status"),
    }));
  };
  /** A snapshot's content in moto, by block. */
  const contentOf = async (id: string): Promise<ReadonlyMap<number, Buffer>> => {
    const headers = {
      authorization:
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ebs/aws4_request, SignedHeaders=host, Signature=0",
    };
    const of = `${ec2.motoURL}/snapshots/${id}/blocks`;
    const list = (await (await fetch(of, { headers })).json()) as {
      readonly Blocks: readonly { readonly BlockIndex: number; readonly BlockToken: string }[];
    };
    const blocks = new Map<number, Buffer>();
    for (const { BlockIndex, BlockToken } of list.Blocks) {
      const answer = await fetch(`${of}/${BlockIndex}?blockToken=${BlockToken}`, { headers });
      blocks.set(BlockIndex, Buffer.from(await answer.arrayBuffer()));
    }
    return blocks;
  };
  const assertHolds = async (id: string, disk: string): Promise<void> => {
    const blocks = await contentOf(id);
    const content = await readFile(disk);
    for (let at = 0; at < content.length; at += blockBytes) {
      const wanted = Buffer.alloc(blockBytes);
      content.copy(wanted, 0, at, at + blockBytes);
      const found = blocks.get(at / blockBytes);
      if (wanted.equals(Buffer.alloc(blockBytes))) assert.equal(found, undefined, `zeros at ${at}`);
      else assert.ok(found?.equals(wanted), `block at ${at}`);
    }
    assert.ok(blocks.size > 10 && blocks.size < 16, String(blocks.size));
  };
  const snapshotOf = (id: string): string =>
    proxy.images.requestOf(id)?.get("BlockDeviceMapping.1.Ebs.SnapshotId") ?? "";

  it("an image: its snapshot holds the disk's blocks but those of zeros, and is registered as documented", async () => {
    const disk = await makeDisk("plain");
    const image = await build(disk, { inFlight: 4 });
    await assertHolds(snapshotOf(image.id), disk);
    assert.ok(proxy.snapshots.mostAtOnce > 1 && proxy.snapshots.mostAtOnce <= 4);
    assert.match(image.name, /^kip-cell-plain-[\da-f]{8}-x86_64$/);
    assert.deepEqual([image.isNew, image.leftOvers], [true, []]);
    const request = proxy.images.requestOf(image.id);
    const asked = Object.fromEntries(
      ["Architecture", "BootMode", "ImdsSupport", "EnaSupport", "TpmSupport", "RootDeviceName"].map(
        (key) => [key, request?.get(key)],
      ),
    );
    assert.deepEqual(asked, {
      Architecture: "x86_64",
      BootMode: "uefi-preferred",
      ImdsSupport: "v2.0",
      EnaSupport: "true",
      TpmSupport: null,
      RootDeviceName: "/dev/xvda",
    });
    assert.equal(request?.get("BlockDeviceMapping.1.Ebs.VolumeType"), "gp3");
  });

  it("an image: cells find it by its name, as they do without a bootImageSpec, and by its tag", async () => {
    const { id } = await build(await makeDisk("newest"));
    await using driver = await ec2.open();
    const spec = { name: "kip-cell-*", filters: "tag:KipImage=newest" };
    assert.equal(await driver.resolveImage(spec), id);
    await build(await makeDisk("newer"));
    assert.equal(await driver.resolveImage({ filters: "tag:KipImage=newest" }), id);
  });

  it("an image for arm64: is registered for UEFI alone, and cells with arm64 find it", async () => {
    const plain = await build(await makeDisk("for-amd64"));
    const arm = await build(await makeDisk("for-arm64"), { architecture: "arm64" });
    assert.match(arm.name, /^kip-cell-for-arm64-[\da-f]{8}-arm64$/);
    const request = proxy.images.requestOf(arm.id);
    assert.deepEqual([request?.get("Architecture"), request?.get("BootMode")], ["arm64", "uefi"]);
    await using driver = await ec2.open();
    assert.equal(await driver.resolveImage({}, "arm64"), arm.id);
    const imageIDs = `${plain.id},${arm.id}`;
    assert.equal(await driver.resolveImage({ imageIDs }, "arm64"), arm.id);
    assert.equal(await driver.resolveImage({ imageIDs }), plain.id);
  });

  it("an image: the same disk gives the same one, and writes nothing", async () => {
    const disk = await makeDisk("twice");
    const first = await build(disk);
    const before = proxy.actions.length;
    const second = await build(disk);
    assert.deepEqual([second.id, second.isNew], [first.id, false]);
    const calls = proxy.actions.slice(before);
    assert.ok(
      !calls.some((each) => each.startsWith("ebs:") || each === "RegisterImage"),
      calls.join(" "),
    );
    assert.equal((await snapshotsOf(disk)).length, 1);
  });

  it("an image: throttled and lost calls are repeated, and make nothing twice", async () => {
    const disk = await makeDisk("throttled");
    proxy.faults.add(
      { action: "StartSnapshot", code: "lost" },
      { action: "PutSnapshotBlock", code: "RequestThrottledException", calls: 12 },
      { action: "PutSnapshotBlock", code: "InternalServerException", status: 500, calls: 3 },
      { action: "PutSnapshotBlock", code: "ResourceNotFoundException", status: 404, calls: 2 },
      { action: "PutSnapshotBlock", code: "lost", calls: 2 },
      { action: "CompleteSnapshot", code: "lost" },
      { action: "RegisterImage", code: "lost" },
    );
    const { id } = await build(disk);
    await assertHolds(snapshotOf(id), disk);
    assert.equal((await snapshotsOf(disk)).length, 1);
  });

  for (const [code, status] of [
    ["ResourceNotFoundException", 404],
    ["AccessDeniedException", 403],
  ] as const)
    it(`an image: EBS may not know a new snapshot, or its tags, for two minutes (${code})`, async () => {
      const disk = await makeDisk(`late-${status}`);
      // As many attempts as fit into two minutes, with the first retry after half a second.
      proxy.faults.add({ action: "PutSnapshotBlock", code, status, calls: 10 });
      const { id } = await build(disk, { inFlight: 1 });
      await assertHolds(snapshotOf(id), disk);
    });

  it("an image: EBS may not read blocks in time that arrive over a slow uplink", async () => {
    const disk = await makeDisk("slow");
    const code = "ValidationException";
    const message = "Failed to read block data";
    proxy.faults.add({ action: "PutSnapshotBlock", code, message, calls: 10 });
    const { id } = await build(disk, { inFlight: 1 });
    await assertHolds(snapshotOf(id), disk);
  });

  it("an image: EBS may still store the snapshot when the answer of its completion is lost", async () => {
    const disk = await makeDisk("storing");
    proxy.snapshots.completionMs = 500;
    proxy.faults.add({ action: "CompleteSnapshot", code: "lost" });
    const { id } = await build(disk, { pollMs: 100 });
    proxy.snapshots.completionMs = 10;
    assert.deepEqual(await snapshotsOf(disk), [{ id: snapshotOf(id), state: "completed" }]);
  });

  it("an image: a block that arrives changed is refused, and the snapshot removed", async () => {
    const disk = await makeDisk("corrupted");
    proxy.faults.add({ action: "PutSnapshotBlock", code: "corrupted" });
    await assert.rejects(build(disk), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_INVALID_REQUEST"));
      assert.match(error.message, /^Cannot write block \d+ of snapshot snap-\w+: The checksum/);
      return true;
    });
    assert.deepEqual(await snapshotsOf(disk), []);
  });

  it("an image: blocks that EBS never allows end the build, which names the policy and removes the snapshot", async () => {
    const disk = await makeDisk("refused");
    const code = "AccessDeniedException";
    proxy.faults.add({ action: "PutSnapshotBlock", code, status: 403, calls: Infinity });
    await assert.rejects(build(disk), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_AUTH"));
      const remedy = /^Allow ebs:PutSnapshotBlock to your .*kip iam print --image-build writes/;
      assert.match(error.remedy ?? "", remedy);
      return true;
    });
    assert.deepEqual(await snapshotsOf(disk), []);
  });

  it("an image: a snapshot that lacks a block is not completed", async () => {
    const disk = await makeDisk("incomplete");
    proxy.faults.add({ action: "PutSnapshotBlock", code: "dropped" });
    await assert.rejects(build(disk), /^CloudError: Cannot complete snapshot snap-\w+: The count/);
    assert.deepEqual(await snapshotsOf(disk), []);
  });

  it("an image: a disk that changes while it is read is refused", async () => {
    const disk = await makeDisk("changing");
    const onProgress = (message: string): void => {
      if (message === "Starting a snapshot") writeFileSync(disk, Buffer.alloc(MiB, 7));
    };
    await assert.rejects(build(disk, { onProgress }), /The checksum does not match the block/);
    assert.deepEqual(await snapshotsOf(disk), []);
  });

  it("an image: a build that is stopped removes its snapshot", async () => {
    const disk = await makeDisk("stopped");
    const stop = new AbortController();
    const onProgress = (message: string): void => {
      if (message.startsWith("Uploading")) stop.abort(new Error("stopped"));
    };
    await assert.rejects(build(disk, { onProgress, signal: stop.signal }), /stopped/);
    assert.deepEqual(await snapshotsOf(disk), []);
  });

  it("an image: a stopped build that may not remove its snapshot says how to", async () => {
    const disk = await makeDisk("left");
    const stoppedBuild = async (): Promise<unknown> => {
      const stop = new AbortController();
      const onProgress = (message: string): void => {
        if (message.startsWith("Uploading")) stop.abort(new Error("stopped"));
      };
      return await build(disk, { onProgress, signal: stop.signal }).catch(
        (error: unknown) => error,
      );
    };
    proxy.faults.add({ action: "DeleteSnapshot", code: "UnauthorizedOperation" });
    // The second one continues with the snapshot of the first, and leaves it too.
    const failures = [await stoppedBuild(), await stoppedBuild()];
    const [left] = await snapshotsOf(disk);
    for (const failure of failures) {
      assert.ok(CloudError.is(failure));
      assert.match(failure.message, /stopped/);
      assert.ok(failure.remedy?.includes(`aws ec2 delete-snapshot --snapshot-id ${left?.id}`));
    }
    // The next build of another image reports it. The next build of this image uses it.
    const other = await build(await makeDisk("other"));
    assert.deepEqual(
      other.leftOvers.map(({ id, state }) => ({ id, state })),
      [left],
    );
    const { id, leftOvers } = await build(disk);
    assert.deepEqual([snapshotOf(id), leftOvers], [left?.id, []]);
    await assertHolds(left?.id ?? "", disk);
  });

  it("an image: what a killed build left is completed by the next one", async () => {
    const disk = await makeDisk("killed");
    const program = `import { buildAmi } from ${JSON.stringify(path.join(import.meta.dirname, "../src/ami/index.ts"))};
      await buildAmi(${JSON.stringify({
        disk,
        imageId: "killed",
        architecture: "x86_64",
        region: "us-east-1",
        credentials: { accessKeyId: "test", secretAccessKey: "test" },
        endpointURL: ec2.endpointURL,
        ebsEndpointURL: ec2.endpointURL,
      })});`;
    // Some blocks arrive, and all later calls are throttled.
    let arrived = 0;
    proxy.faults.random = (action) =>
      action === "PutSnapshotBlock" && ++arrived > 5 ? { code: "ThrottlingException" } : undefined;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program]);
    const ended = new Promise((resolve) => child.once("exit", resolve));
    await eventually(() => arrived > 12);
    child.kill("SIGKILL");
    await ended;
    proxy.faults.clear();
    const [left] = await snapshotsOf(disk);
    assert.equal(left?.state, "pending");
    const { id } = await build(disk);
    assert.equal(snapshotOf(id), left.id);
    await assertHolds(left.id, disk);
    assert.equal((await snapshotsOf(disk)).length, 1);
  });

  it("an image: two builds of one disk make one, also while EBS completes the snapshot", async () => {
    const disk = await makeDisk("together");
    proxy.snapshots.completionMs = 1500;
    const before = proxy.actions.length;
    const isSealed = () => proxy.actions.slice(before).includes("ebs:CompleteSnapshot");
    const first = build(disk, { pollMs: 100 });
    await eventually(isSealed);
    const second = build(disk, { pollMs: 100 });
    const images = await Promise.all([first, second]);
    proxy.snapshots.completionMs = 10;
    assert.equal(images[0].id, images[1].id);
    assert.deepEqual(await snapshotsOf(disk), [
      { id: snapshotOf(images[0].id), state: "completed" },
    ]);
  });

  it("an image: what EBS has given up is removed, and made again", async () => {
    const disk = await makeDisk("abandoned");
    proxy.faults.add({ action: "DeleteSnapshot", code: "UnauthorizedOperation" });
    proxy.faults.add({ action: "CompleteSnapshot", code: "AccessDeniedException", status: 403 });
    await assert.rejects(build(disk), /Cannot complete snapshot/);
    const [left] = await snapshotsOf(disk);
    proxy.snapshots.abandon(left?.id ?? "");
    const { id } = await build(disk);
    assert.notEqual(snapshotOf(id), left?.id);
    assert.deepEqual(await snapshotsOf(disk), [{ id: snapshotOf(id), state: "completed" }]);
  });

  it("an image: a complete snapshot that could not be registered is kept, and used by the next build", async () => {
    const disk = await makeDisk("unregistered");
    proxy.faults.add({ action: "RegisterImage", code: "UnauthorizedOperation" });
    await assert.rejects(build(disk), (error) => {
      assert.ok(CloudError.is(error, "CLOUD_AUTH"));
      assert.match(error.remedy ?? "", /^Allow ec2:RegisterImage[^]*is left and costs money/);
      assert.match(error.remedy ?? "", /kip iam print --image-build writes the whole policy/);
      return true;
    });
    const [left] = await snapshotsOf(disk);
    assert.equal(left?.state, "completed");
    assert.equal(snapshotOf((await build(disk)).id), left.id);
  });

  it("an image: its build calls no action that kip iam print leaves out", () => {
    const allowed = new Set(imageBuildPolicy().Statement.flatMap(({ Action }) => Action));
    const called = builds.map((action) => (action.includes(":") ? action : `ec2:${action}`));
    assert.ok(new Set(called).size >= 7, called.join(" "));
    assert.deepEqual(
      called.filter((name) => !allowed.has(name)),
      [],
    );
  });
}
