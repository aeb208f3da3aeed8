import assert from "node:assert/strict";
import { appendFile, mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { after, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { growth } from "@kip/base/testing";
import { temporaryFolder } from "@kip/testing";
import * as fc from "fast-check";
import { listLogFiles } from "./log-files.ts";
import type { LogEntry } from "./log-line.ts";
import { readLog, readLogEntries, type LogReadOptions } from "./read-log.ts";
import { numberLogFiles, settleLog } from "./settle-log.ts";
import { removeOldLogs } from "./trim-log.ts";

const never = new AbortController().signal;
const done = Promise.resolve();
const temporary = temporaryFolder();
after(() => temporary.remove());
const folder = temporary.path;
const file = path.join(folder, "current.log");

function entry(content: string, tag: "F" | "P" = "F", second = 0, stream = "stdout"): string {
  const time = `2026-01-01T00:00:${String(second).padStart(2, "0")}.123456789+00:00`;
  return `${time} ${stream} ${tag} ${content}\n`;
}

/** Starts a log with this text in its first file. */
async function begin(log: string): Promise<void> {
  await rm(folder, { recursive: true });
  await mkdir(folder);
  await writeFile(file, log);
}

/** Switches to the next file like conmon. */
async function goOn(log: string): Promise<void> {
  await writeFile(`${file}.tmp`, "");
  await rename(`${file}.tmp`, file);
  await appendFile(file, log);
}

async function read(log: string, options: LogReadOptions = {}): Promise<string> {
  await begin(log);
  return await text(readLog(folder, options, done, never));
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

  it("with tailLines gives no more lines while the container writes, as a kubelet does", async () => {
    const lines = entry("x".repeat(10_000)).repeat(40);
    await begin(lines);
    const stream = readLog(folder, { tailLines: 40 }, done, never);
    const chunks: Buffer[] = [];
    for await (const chunk of stream) {
      if (chunks.length === 0) await appendFile(file, lines);
      chunks.push(chunk as Buffer);
    }
    assert.equal(Buffer.concat(chunks).toString().split("\n").length, 41);
  });

  it("follows until the container has ended, to its last line", async () => {
    await begin(entry("a"));
    const ended = Promise.withResolvers<void>();
    const stream = readLog(folder, { follow: true }, ended.promise, never);
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
    await begin(entry("a"));
    const abort = new AbortController();
    const stream = readLog(
      folder,
      { follow: true },
      Promise.withResolvers<void>().promise,
      abort.signal,
    );
    stream.once("data", () => abort.abort(new Error("client gone")));
    await assert.rejects(text(stream), /client gone/);
  });

  it("without following reads the newest file, as at a kubelet", async () => {
    await begin(entry("a"));
    await text(readLog(folder, {}, done, never));
    await goOn(entry("b") + entry("c"));
    assert.equal(await text(readLog(folder, {}, done, never)), "b\nc\n");
    assert.equal(await text(readLog(folder, { tailLines: 5 }, done, never)), "b\nc\n");
    await goOn("");
    assert.equal(await text(readLog(folder, { tailLines: 1 }, done, never)), "c\n");
  });

  it("with tailBytes reads over the borders of files, compressed ones too", async () => {
    const lines = Array.from({ length: 9 }, (_, index) => entry(`line ${index}`));
    await begin(lines.slice(0, 3).join(""));
    for (const from of [3, 6]) {
      await text(readLog(folder, {}, done, never));
      await goOn(lines.slice(from, from + 3).join(""));
    }
    await text(readLog(folder, {}, done, never));
    const first = path.join(folder, "1.log");
    const bytes = lines[0]?.length ?? 0;
    for (const isCompressed of [false, true]) {
      if (isCompressed) {
        await writeFile(`${first}.gz`, gzipSync(await readFile(first)));
        await rm(first);
      }
      for (let wanted = 0; wanted <= 10; wanted++)
        for (const more of [0, bytes - 1]) {
          const shown = lines
            .slice(Math.max(0, 9 - wanted))
            .map((line) => line.slice(45))
            .join("");
          const options = { tailBytes: wanted * bytes + more };
          assert.equal(await text(readLog(folder, options, done, never)), shown);
        }
    }
  });

  it("follows over the borders of files, and joins lines there, however slowly it is read", async () => {
    await begin(entry("a") + entry("b", "P"));
    const ended = Promise.withResolvers<void>();
    const stream = readLog(folder, { follow: true, timestamps: true }, ended.promise, never);
    const iterator = stream[Symbol.asyncIterator]();
    const next = async (): Promise<string> => String((await iterator.next()).value);
    const time = "2026-01-01T00:00:00.123456789Z";
    assert.equal(await next(), `${time} a\n${time} b`);
    await goOn(entry("c", "P"));
    await numberLogFiles(folder);
    await goOn(entry("d") + entry("e"));
    await numberLogFiles(folder);
    assert.equal(await next(), "c");
    await goOn(entry("f"));
    await numberLogFiles(folder);
    // Not always the third: a number is left out where the machine was slow, see settle-log.ts.
    const old = (await listLogFiles(folder)).at(-2)?.path ?? "";
    await writeFile(`${old}.gz`, gzipSync(await readFile(old)));
    await rm(old);
    await goOn(entry("g"));
    ended.resolve();
    assert.equal(await text(stream), `d\n${time} e\n${time} f\n${time} g\n`);
  });

  it("goes on with the oldest file that is left when it was too slow", async () => {
    await begin(entry("a"));
    const ended = Promise.withResolvers<void>();
    const from = { kind: "newest" } as const;
    const entries = readLogEntries(folder, { from, ended: ended.promise, signal: never });
    const next = async (): Promise<readonly string[]> => {
      const { value } = await entries.next();
      return (value ?? []).map(({ content }: LogEntry) => String(content));
    };
    assert.deepEqual(await next(), ["a"]);
    for (const line of ["b", "c", "d"]) {
      await settleLog(folder);
      await goOn(entry(line));
    }
    await settleLog(folder);
    await removeOldLogs(folder, { maxFiles: 2, maxFileBytes: 1e6 });
    ended.resolve();
    assert.deepEqual([await next(), await next()], [["c"], ["d"]]);
    assert.equal((await entries.next()).done, true);
  });

  it("says that a log does not exist", async () => {
    await assert.rejects(text(readLog(path.join(folder, "none"), {}, done, never)), {
      code: "LOG_NOT_FOUND",
    });
  });

  it("KHV047: follows no link, and opens nothing but a file", async () => {
    const elsewhere = path.join(folder, "elsewhere");
    const place = path.join(folder, "1.log");
    const plants: readonly (() => Promise<unknown>)[] = [
      async () => await symlink(elsewhere, place),
      async () => await symlink("/etc/shadow", place),
      async () => await symlink("1.log", place),
      async () => await runCommand("mkfifo", [place]),
      async () => await mkdir(place),
    ];
    await begin("");
    await rm(file);
    await writeFile(elsewhere, entry("secret"));
    for (const plant of plants) {
      await plant();
      for (const options of [{}, { tailLines: 1 }, { follow: true }])
        await assert.rejects(text(readLog(folder, options, done, never)), {
          code: "LOG_NOT_FOUND",
        });
      await rm(place, { recursive: true });
    }
  });

  it("with tailLines takes time by the length of a hostile line, and not by its square", async () => {
    const size = 32 * 2 ** 20;
    for (const bytes of [size, Math.ceil(size / 10)]) {
      const line = Buffer.alloc(bytes, "x");
      await mkdir(path.join(folder, String(bytes)));
      const log = Buffer.concat([line, Buffer.from(`\n${entry("a")}`)]);
      await writeFile(path.join(folder, String(bytes), "current.log"), log);
    }
    const read = async (bytes: number): Promise<void> =>
      assert.equal(
        await text(readLog(path.join(folder, String(bytes)), { tailLines: 1 }, done, never)),
        "a\n",
      );
    assert.ok((await growth(read, size)) < 40);
  });
});
