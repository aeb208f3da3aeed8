import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { after, describe, it } from "node:test";
import * as fc from "fast-check";
import { growth } from "@kip/base/testing";
import type { LogOptions } from "@kip/virtual-kubelet";
import { readSavedLog } from "./read-saved-log.ts";

const folder = mkdtempSync(path.join(tmpdir(), "kip-saved-log-"));
after(() => rmSync(folder, { recursive: true }));
const file = path.join(folder, "main.log");
const all: LogOptions = { follow: false, previous: false, timestamps: false };
const time = "2026-01-01T00:00:00.123456789Z";

async function read(content: Buffer | string, options: Partial<LogOptions> = {}): Promise<Buffer> {
  writeFileSync(file, content);
  return await shown(options);
}

async function shown(options: Partial<LogOptions>): Promise<Buffer> {
  const stream = await readSavedLog(file, { ...all, ...options });
  assert.ok(stream);
  return await buffer(stream);
}

/** Number of files in this folder that the process has open. */
function openFiles(): number {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder);
    } catch {
      return false; // the descriptor that lists them
    }
  }).length;
}

describe("readSavedLog()", () => {
  it("keeps carriage returns, line separators and bytes that are not UTF-8", async () => {
    const texts = [
      "10%\r20% done\rall ok\n",
      '{"msg":"a\u2028b c\u2029d"}\n',
      "\n",
      "\f\v\u0085\n",
    ];
    const lines = [
      ...texts.map((text) => Buffer.from(text)),
      Buffer.from([0xff, 0xfe, 0x41, 0x0a]),
    ];
    const log = Buffer.concat(lines.flatMap((line) => [Buffer.from(`${time} `), line]));
    assert.deepEqual(await read(log), Buffer.concat(lines));
    assert.deepEqual(await read(log, { timestamps: true }), log);
    assert.deepEqual(await read(log, { tailLines: 2 }), Buffer.concat(lines.slice(-2)));
  });

  it("adds no line end to a last line without one", async () => {
    const log = `${time} one\n${time} two`;
    assert.equal(String(await read(log)), "one\ntwo");
    assert.equal(String(await read(log, { tailLines: 1 })), "two");
    assert.equal(String(await read("")), "");
  });

  it("gives exactly as many bytes as asked for, within a character too", async () => {
    const log = `${time} \u20ac\u20ac\n`;
    assert.deepEqual(
      await read(log, { limitBytes: 4 }),
      Buffer.from("\u20ac\u20ac\n").subarray(0, 4),
    );
    assert.equal(String(await read(`${time} a\n${time} b\n`, { limitBytes: 2 })), "a\n");
  });

  it("shows a line without a time as it is", async () => {
    const log = `no time here\n${time} with\n2026 x\n`;
    assert.equal(String(await read(log)), "no time here\nwith\n2026 x\n");
  });

  it("agrees with a plain filter of whole lines, wherever blocks end", async () => {
    const line = fc.record({
      second: fc.integer({ min: 0, max: 59 }),
      text: fc.uint8Array({ maxLength: 12 }),
      repeat: fc.constantFrom(1, 1, 1, 5000, 9000),
      hasTime: fc.boolean(),
    });
    const options = fc.record({
      timestamps: fc.boolean(),
      tailLines: fc.option(fc.nat(12), { nil: undefined }),
      limitBytes: fc.option(fc.integer({ min: 1, max: 150_000 }), { nil: undefined }),
      since: fc.option(fc.integer({ min: 0, max: 59 }), { nil: undefined }),
    });
    const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, "0")}Z`;
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 12 }), options, async (lines, asked) => {
        const stored = lines.map(({ second, text, repeat, hasTime }) => {
          const content = Buffer.concat(
            Array<Uint8Array>(repeat).fill(text.map((byte) => (byte === 0x0a ? 0x0d : byte))),
          );
          const end = Buffer.from("\n");
          const prefix = Buffer.from(hasTime ? `${at(second)} ` : "- ");
          const isNew = !hasTime || asked.since === undefined || second >= asked.since;
          return {
            whole: Buffer.concat([prefix, content, end]),
            shown: Buffer.concat([
              asked.timestamps || !hasTime ? prefix : end.subarray(1),
              content,
              end,
            ]),
            isNew,
          };
        });
        const tail =
          asked.tailLines === undefined
            ? stored
            : stored.slice(stored.length - Math.min(asked.tailLines, stored.length));
        const expected = Buffer.concat(tail.filter(({ isNew }) => isNew).map((each) => each.shown));
        const { since, tailLines, limitBytes, timestamps } = asked;
        const actual = await read(Buffer.concat(stored.map(({ whole }) => whole)), {
          timestamps,
          ...(tailLines !== undefined && { tailLines }),
          ...(limitBytes !== undefined && { limitBytes }),
          ...(since !== undefined && { sinceTimeMs: Date.parse(at(since)) }),
        });
        assert.ok(actual.equals(expected.subarray(0, asked.limitBytes)));
      }),
      { numRuns: 60 },
    );
  });

  it("takes linear time for the last lines of a log of short lines", async () => {
    const line = `${time} x\n`;
    const work = async (size: number): Promise<void> => {
      writeFileSync(file, line.repeat(size));
      const tailLines = size / 10;
      assert.equal((await shown({ tailLines })).length, 2 * tailLines);
    };
    assert.ok((await growth(work, 200_000)) < 40);
  });

  it("closes the file, read to its end or not", { timeout: 30_000 }, async () => {
    writeFileSync(file, `${time} text\n`.repeat(100_000));
    const closed: Promise<unknown>[] = [];
    for (let count = 0; count < 20; count++) {
      await shown({ limitBytes: 100 });
      const stream = await readSavedLog(file, all);
      assert.ok(stream);
      closed.push(once(stream, "close"));
      if (count % 2 === 0) await once(stream, "readable");
      stream.destroy();
    }
    await Promise.all(closed);
    await new Promise(setImmediate);
    while (openFiles() > 0) await new Promise(setImmediate); // a thread closes the file
  });
});
