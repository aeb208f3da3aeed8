import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { PassThrough, Writable } from "node:stream";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { attachProcess } from "./attach-process.ts";
import { containerPaths, runPaths } from "../run-paths.ts";

describe("attachProcess()", () => {
  it("leaves no rejection unhandled when its client is gone at once", async () => {
    using place = temporaryContainer("");
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const signal = AbortSignal.abort(new Error("client gone"));
      const ended = Promise.reject<unknown>(signal.reason);
      const streams = { tty: false, stdout: new PassThrough() };
      await assert.rejects(attachProcess(place.record, place.files, streams, ended, signal), {
        message: "client gone",
      });
    } finally {
      process.off("unhandledRejection", note);
    }
    assert.deepEqual(unhandled, []);
  });

  it("ends on abort while its client does not read", async () => {
    using place = temporaryContainer("");
    const stop = new AbortController();
    const isAsked = Promise.withResolvers<void>();
    const stdout = new Writable({ highWaterMark: 1, write: () => isAsked.resolve() });
    const { promise: ended } = Promise.withResolvers<void>();
    const attached = attachProcess(
      place.record,
      place.files,
      { tty: false, stdout },
      ended,
      stop.signal,
    );
    // The client attaches at the log's end, so keep writing until it does.
    const writing = setInterval(() => place.print("some text"), 20);
    await isAsked.promise;
    clearInterval(writing);
    stop.abort(new Error("enough"));
    await assert.rejects(attached, { message: "enough" });
  });

  it("writes lines that are read together as one piece, those of the two streams in order", async () => {
    using place = temporaryContainer("");
    const ended = Promise.withResolvers<void>();
    const pieces: string[] = [];
    const sink = (name: string) =>
      new Writable({
        write: (chunk: Buffer, _encoding, done) => {
          pieces.push(`${name} ${String(chunk)}`);
          done();
        },
      });
    const begun = Promise.withResolvers<void>();
    const stdout = sink("out");
    stdout.once("newListener", () => begun.resolve()); // the log's end has been found
    const streams = { tty: false, stdout, stderr: sink("err") };
    const { signal } = new AbortController();
    const attached = attachProcess(place.record, place.files, streams, ended.promise, signal);
    await begun.promise;
    for (const line of ["1", "2"]) place.print(line);
    place.print("3", "stderr");
    place.print("4");
    ended.resolve();
    await attached;
    assert.deepEqual(pieces, ["out 1\n2\n", "err 3\n", "out 4\n"]);
  });
});

/** A container's record and its log. */
function temporaryContainer(text: string) {
  const temporary = temporaryFolder();
  const folder = temporary.path;
  const logDirectory = path.join(folder, "log");
  const log = path.join(logDirectory, "current.log");
  mkdirSync(logDirectory);
  writeFileSync(log, text);
  const files = containerPaths(runPaths(folder), "c");
  const stdin = "closed" as const;
  const record = {
    id: "c",
    labels: {},
    logDirectory,
    maxLogFiles: 5,
    maxLogFileBytes: 10 * 2 ** 20,
    cgroup: "/c",
    tty: false,
    stdin,
    createdAtMs: 0,
  };
  const time = "2026-01-01T00:00:00.000000000+00:00";
  return {
    record,
    files,
    print: (line: string, stream = "stdout") =>
      writeFileSync(log, `${time} ${stream} F ${line}\n`, { flag: "a" }),
    [Symbol.dispose]: () => temporary.remove(),
  };
}
