import assert from "node:assert/strict";
import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { temporaryFolder, type TemporaryFolder } from "@kip/testing";
import { LayerSpool } from "./layer-spool.ts";

const piece = 1000;

describe("LayerSpool", () => {
  let folder: TemporaryFolder;
  let file = "";
  beforeEach(() => {
    folder = temporaryFolder();
    file = path.join(folder.path, "1");
  });
  afterEach(() => folder.remove());

  it("keeps what there is room for in memory, and gives the room back", async () => {
    const memory = { left: 1_000_000 };
    const spool = new LayerSpool(file, memory);
    await spool.fill(pieces(20));
    assert.ok(memory.left <= 1_000_000 - 20 * piece);
    assert.ok(!existsSync(file));
    assert.deepEqual(await readAll(spool), await readAll({ read: () => pieces(20) }));
    assert.equal(memory.left, 1_000_000);
    await spool.remove();
  });

  it("puts what comes beyond into a file", async () => {
    const memory = { left: 5 * piece };
    const spool = new LayerSpool(file, memory);
    await spool.fill(pieces(20));
    assert.ok(statSync(file).size >= 15 * piece);
    assert.deepEqual(await readAll(spool), await readAll({ read: () => pieces(20) }));
    await spool.remove();
    assert.ok(!existsSync(file));
  });

  it("lets a layer through that is read while it arrives", async () => {
    const spool = new LayerSpool(file, { left: 3 * piece });
    const read = readAll(spool);
    await spool.fill(pieces(50));
    assert.deepEqual(await read, await readAll({ read: () => pieces(50) }));
  });

  it("takes a byte for more than a byte", async () => {
    const memory = { left: 100_000 };
    const bytes = (async function* () {
      for (let index = 0; index < 10_000; index++) yield await Promise.resolve(Buffer.of(7));
    })();
    const spool = new LayerSpool(file, memory);
    await spool.fill(bytes);
    assert.ok(statSync(file).size > 9000);
    assert.deepEqual(await readAll(spool), Buffer.alloc(10_000, 7));
  });

  it("fails for the reader as for the writer, in memory and in the file", async () => {
    for (const left of [1_000_000, 2 * piece]) {
      const spool = new LayerSpool(`${file}-${left}`, { left });
      const read = assert.rejects(readAll(spool), /cut/);
      await assert.rejects(spool.fill(cut()), /cut/);
      await read;
    }
  });
});

async function* pieces(count: number): AsyncGenerator<Buffer> {
  for (let index = 0; index < count; index++)
    yield await Promise.resolve(Buffer.alloc(piece, index));
}

async function* cut(): AsyncGenerator<Buffer> {
  yield* pieces(10);
  throw new Error("cut");
}

async function readAll(spool: Pick<LayerSpool, "read">): Promise<Buffer> {
  const found: Uint8Array[] = [];
  for await (const chunk of spool.read()) found.push(chunk);
  return Buffer.concat(found);
}
