import assert from "node:assert/strict";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { ManualClock, tar, temporaryFolder, writeLayout } from "@kip/testing";
import { digestOf } from "../digest.ts";
import { parseReference } from "../reference.ts";
import { BlobCache } from "./blob-cache.ts";
import { collectCache, type CollectedCache } from "./collect-cache.ts";
import { markCachedImage } from "./use-cached.ts";

const hourMs = 3_600_000;
const none = {
  retiredBlobs: 0,
  waitingBlobs: 0,
  waitingBytes: 0,
  removedBlobs: 0,
  removedBytes: 0,
};

/** A cache with blobs that were last used this many hours ago. */
function openCache(
  folder: string,
  clock: ManualClock,
  hoursByText: Readonly<Record<string, number>>,
) {
  const blobs = path.join(folder, "blobs/sha256");
  mkdirSync(blobs, { recursive: true });
  const put = (text: string, hours: number, name = hexOf(text)): void => {
    const file = path.join(blobs, name);
    writeFileSync(file, text);
    const seconds = (clock.now() - hours * hourMs) / 1000;
    utimesSync(file, seconds, seconds);
  };
  for (const [text, hours] of Object.entries(hoursByText)) put(text, hours);
  const collect = async (
    inUse: readonly string[] = [],
    options: object = {},
  ): Promise<CollectedCache> =>
    await collectCache(folder, {
      inUse: new Set(inUse.map((text) => digestOf(text))),
      unusedForMs: 24 * hourMs,
      clock,
      ...options,
    });
  return { blobs, put, collect, names: () => readdirSync(blobs).sort() };
}

const hexOf = (text: string): string => digestOf(text).slice("sha256:".length);

describe("collectCache()", () => {
  it("takes the names of blobs that were not used for long, and their bytes later", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const cache = openCache(folder.path, clock, { old: 25, new: 23, "in use": 1000 });
    const kept = [hexOf("new"), hexOf("in use")];
    assert.deepEqual(await cache.collect(["in use"]), {
      ...none,
      blobs: 2,
      bytes: 9,
      retiredBlobs: 1,
      waitingBlobs: 1,
      waitingBytes: 3,
    });
    const away = `.${hexOf("old")}.unused-${clock.now()}`;
    assert.deepEqual(cache.names(), [away, ...kept].sort());
    await clock.advance(hourMs - 1);
    const waiting = await cache.collect(["in use", "new"]);
    assert.deepEqual(waiting, { ...none, blobs: 2, bytes: 9, waitingBlobs: 1, waitingBytes: 3 });
    await clock.advance(1);
    const last = await cache.collect(["in use", "new"]);
    assert.deepEqual(last, { ...none, blobs: 2, bytes: 9, removedBlobs: 1, removedBytes: 3 });
    assert.deepEqual(cache.names(), kept.sort());
  });

  it("leaves a blob that is open readable after its name is gone", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const cache = openCache(folder.path, clock, { old: 25 });
    await using reader = await open(path.join(cache.blobs, hexOf("old")));
    assert.equal((await cache.collect()).retiredBlobs, 1);
    using part = BlobCache.public(folder.path);
    const descriptor = { mediaType: "", digest: digestOf("old"), size: 3 };
    assert.equal(await part.read(descriptor), undefined, "no pull begins to read it");
    assert.equal(await reader.readFile("utf8"), "old");
  });

  it("gives a name back if the blob is noted as used meanwhile", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const cache = openCache(folder.path, clock, { old: 25 });
    using part = BlobCache.public(folder.path);
    // Between its check and its rename, the collector reads the set of used digests.
    const inUse = new (class extends Set<string> {
      override has(digest: string): boolean {
        utimesSync(path.join(cache.blobs, digest.slice(7)), clock.now() / 1000, clock.now() / 1000);
        return false;
      }
    })();
    const collected = await cache.collect([], { inUse });
    assert.deepEqual(collected, { ...none, blobs: 1, bytes: 3 });
    assert.deepEqual(cache.names(), [hexOf("old")]);
    assert.equal(await part.markUsed(digestOf("old"), clock), true);
    assert.equal(await part.markUsed(digestOf("other"), clock), false);
  });

  it("removes what dead fillers left, and nothing that it does not know", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const cache = openCache(folder.path, clock, {});
    const hex = hexOf("x");
    for (const name of [`.${hex}.draft-1`, `.${hex}.claim`, `.${hex}.claim.2`])
      cache.put("", 2, name);
    for (const name of [`.${hex}.draft-3`, `.${hexOf("y")}.claim`]) cache.put("", 0.9, name);
    const foreign = [
      "README",
      ".nfs0000000001",
      `${hex}.bak`,
      `.${hex}.unused-`,
      `.${hex}.unused-x`,
    ];
    for (const name of foreign) cache.put("", 1000, name);
    assert.deepEqual(await cache.collect(), { ...none, blobs: 0, bytes: 0 });
    const young = [`.${hex}.draft-3`, `.${hexOf("y")}.claim`];
    assert.deepEqual(cache.names(), [...foreign, ...young].sort());
  });

  it("does not go where links of another filler lead, nor take a folder for a blob", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const outside = openCache(path.join(folder.path, "outside"), clock, { old: 1000 });
    const cache = path.join(folder.path, "cache");
    mkdirSync(path.join(cache, "private", "a".repeat(64)), { recursive: true });
    mkdirSync(path.join(cache, "private", "b".repeat(64), "blobs/sha256", "c".repeat(64)), {
      recursive: true,
    });
    symlinkSync(path.join(folder.path, "outside/blobs"), path.join(cache, "blobs"));
    symlinkSync(
      path.join(folder.path, "outside/blobs"),
      path.join(cache, "private", "a".repeat(64), "blobs"),
    );
    const options = { inUse: new Set<string>(), unusedForMs: 0, graceMs: 0, clock };
    assert.deepEqual(await collectCache(cache, options), { ...none, blobs: 0, bytes: 0 });
    assert.deepEqual(outside.names(), [hexOf("old")]);
    assert.deepEqual(await collectCache(path.join(folder.path, "none"), options), {
      ...none,
      blobs: 0,
      bytes: 0,
    });
  });

  it("collects private parts, too", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const key = path.join("private", "a".repeat(64));
    const cache = openCache(path.join(folder.path, key), clock, { old: 25, new: 1 });
    const collected = await collectCache(folder.path, {
      inUse: new Set(),
      unusedForMs: 24 * hourMs,
      clock,
    });
    assert.equal(collected.retiredBlobs, 1);
    assert.equal(collected.blobs, 1);
    assert.equal(
      cache
        .names()
        .filter((name) => !name.startsWith("."))
        .join(),
      hexOf("new"),
    );
  });
});

describe("markCachedImage()", () => {
  it("finds all blobs of an image by its digest, and sets their times", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock(Date.UTC(2040, 0, 1));
    const layers = [tar([{ name: "one" }]), tar([{ name: "two" }])];
    const { digest } = writeLayout(folder.path, { layers, isIndexed: true });
    const reference = parseReference(`registry.example.com/app@${digest}`);
    const found = await markCachedImage(reference, folder.path, { clock });
    assert.equal(found.isWhole, true);
    const blobs = path.join(folder.path, "blobs/sha256");
    const all = readdirSync(blobs).map((hex) => `sha256:${hex}`);
    assert.deepEqual([...found.digests].sort(), all.sort());
    const options = { inUse: new Set<string>(), unusedForMs: 1, clock };
    assert.equal((await collectCache(folder.path, options)).retiredBlobs, 0);
    await clock.advance(1);
    assert.equal((await collectCache(folder.path, options)).retiredBlobs, 5);
  });

  it("says that an image is not whole without one of its blobs, or for another platform", async () => {
    using folder = temporaryFolder();
    const clock = new ManualClock();
    const { digest } = writeLayout(folder.path, {
      layers: [tar([{ name: "one" }])],
      isIndexed: true,
    });
    const mark = async (name: string, platform?: { os: string; architecture: string }) =>
      await markCachedImage(parseReference(name), folder.path, { platform, clock });
    const other = { os: "linux", architecture: "s390x" };
    const partly = await mark(`r.example.com/app@${digest}`, other);
    assert.deepEqual(partly, { isWhole: false, digests: [digest] });
    assert.deepEqual(await mark("r.example.com/app:1"), { isWhole: false, digests: [] });
    const blobs = path.join(folder.path, "blobs/sha256");
    const layer = readdirSync(blobs).find((hex) => readFileSync(path.join(blobs, hex))[0] === 0x1f);
    writeFileSync(path.join(blobs, layer ?? assert.fail()), "cut");
    const cut = await mark(`r.example.com/app@${digest}`);
    assert.equal(cut.isWhole, false);
    assert.equal(cut.digests.length, 3);
    writeFileSync(path.join(blobs, digest.slice(7)), "altered");
    assert.deepEqual((await mark(`r.example.com/app@${digest}`)).digests, []);
  });
});
