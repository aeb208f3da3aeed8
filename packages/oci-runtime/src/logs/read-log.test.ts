import assert from "node:assert/strict";
import { appendFile, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { growth } from "@kip/base/testing";
import { temporaryFolder } from "@kip/testing";
import * as fc from "fast-check";
import { readLog, type LogReadOptions } from "./read-log.ts";

const never = new AbortController().signal;
const done = Promise.resolve();
const temporary = temporaryFolder();
after(() => temporary.remove());
const folder = temporary.path;
const file = path.join(folder, "0.log");

function entry(content: string, tag: "F" | "P" = "F", second = 0, stream = "stdout"): string {
  const time = `2026-01-01T00:00:${String(second).padStart(2, "0")}.123456789+00:00`;
  return `${time} ${stream} ${tag} ${content}\n`;
}

async function read(log: string, options: LogReadOptions = {}): Promise<string> {
  await writeFile(file, log);
  return await text(readLog(file, options, done, never));
}

describe("readLog()", () => {
  it("joins the parts of a line", async () => {
    assert.equal(
      await read(entry("a", "P") + entry("b", "P") + entry("c") + entry("d")),
      "abc\nd\n",
    );
  });

  it("shows a last line without its end", async () => {
    assert.equal(await read(entry("a") + entry("b", "P")), "a\nb");
  });

  it("puts the time once before each line", async () => {
    const log = entry("a", "P", 1) + entry("x", "F", 2, "stderr") + entry("b", "F", 3);
    assert.equal(
      await read(log, { timestamps: true }),
      "2026-01-01T00:00:01.123456789Z a2026-01-01T00:00:02.123456789Z x\nb\n",
    );
  });

  it("starts at a time", async () => {
    const log = entry("a", "F", 1) + entry("b", "F", 2) + entry("c", "F", 3);
    assert.equal(await read(log, { sinceTimeMs: Date.parse("2026-01-01T00:00:02Z") }), "b\nc\n");
  });

  it("ends at the limit, in the middle of a line too", async () => {
    assert.equal(await read(entry("abc") + entry("def"), { limitBytes: 6 }), "abc\nde");
    assert.equal(await read(entry("abc") + entry("def"), { limitBytes: 4 }), "abc\n");
  });

  it("begins so many bytes before the end, with the next line", async () => {
    const log = entry("a") + entry("b") + entry("c");
    const length = entry("b").length;
    assert.equal(await read(log, { tailBytes: length * 2 }), "b\nc\n");
    assert.equal(await read(log, { tailBytes: length * 2 - 1 }), "c\n");
    assert.equal(await read(log, { tailBytes: 10_000 }), "a\nb\nc\n");
  });

  it("leaves out lines that are not entries", async () => {
    assert.equal(await read(`${entry("a")}garbage\n\0\0\0\n${entry("b")}2026-01-01T00`), "a\nb\n");
  });

  it("with tailLines gives the last lines of any log", async () => {
    const contents = fc.array(
      fc.record({
        text: fc.oneof(fc.stringMatching(/^[a-z ]{0,20}$/), fc.constant("x".repeat(70_000))),
        parts: fc.integer({ min: 1, max: 3 }),
      }),
      { maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(contents, fc.nat(14), fc.boolean(), async (lines, tailLines, isOpen) => {
        const log = lines.map(({ text: line, parts }, index) => {
          const isLast = index === lines.length - 1;
          const tag = isLast && isOpen ? "P" : "F";
          return entry(line, "P").repeat(parts - 1) + entry(line, tag);
        });
        const shown = lines.map(({ text: line, parts }, index) => {
          const isLast = index === lines.length - 1;
          return line.repeat(parts) + (isLast && isOpen ? "" : "\n");
        });
        const wanted = tailLines === 0 ? "" : shown.slice(-tailLines).join("");
        assert.equal(await read(log.join(""), { tailLines }), wanted);
      }),
      { numRuns: 60 },
    );
  });

  it("follows until the container has ended, to its last line", async () => {
    await writeFile(file, entry("a"));
    const ended = Promise.withResolvers<void>();
    const stream = readLog(file, { follow: true }, ended.promise, never);
    const iterator = stream[Symbol.asyncIterator]();
    assert.equal(String((await iterator.next()).value), "a\n");
    await appendFile(file, entry("b"));
    assert.equal(String((await iterator.next()).value), "b\n");
    await appendFile(file, entry("c"));
    ended.resolve();
    assert.equal(String((await iterator.next()).value), "c\n");
    assert.equal((await iterator.next()).done, true);
  });

  it("stops following on an abort", async () => {
    await writeFile(file, entry("a"));
    const abort = new AbortController();
    const stream = readLog(
      file,
      { follow: true },
      Promise.withResolvers<void>().promise,
      abort.signal,
    );
    stream.once("data", () => abort.abort(new Error("client gone")));
    await assert.rejects(text(stream), /client gone/);
  });

  it("says that a log does not exist", async () => {
    await assert.rejects(text(readLog(path.join(folder, "none"), {}, done, never)), {
      code: "LOG_NOT_FOUND",
    });
  });

  it("KHV047: follows no link, and opens nothing but a file", async () => {
    const place = path.join(folder, "planted.log");
    const plants: readonly (() => Promise<unknown>)[] = [
      async () => await symlink(file, place),
      async () => await symlink("/etc/shadow", place),
      async () => await symlink("planted.log", place),
      async () => await runCommand("mkfifo", [place]),
      async () => await mkdir(place),
    ];
    await writeFile(file, entry("secret"));
    for (const plant of plants) {
      await plant();
      for (const options of [{}, { tailLines: 1 }, { follow: true }])
        await assert.rejects(text(readLog(place, options, done, never)), { code: "LOG_NOT_FOUND" });
      await rm(place, { recursive: true });
    }
  });

  it("with tailLines takes time by the length of a hostile line, and not by its square", async () => {
    const size = 32 * 2 ** 20;
    for (const bytes of [size, Math.ceil(size / 10)]) {
      const line = Buffer.alloc(bytes, "x");
      await writeFile(`${file}-${bytes}`, Buffer.concat([line, Buffer.from(`\n${entry("a")}`)]));
    }
    const read = async (bytes: number): Promise<void> =>
      assert.equal(await text(readLog(`${file}-${bytes}`, { tailLines: 1 }, done, never)), "a\n");
    assert.ok((await growth(read, size)) < 40);
  });
});
