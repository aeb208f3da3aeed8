import assert from "node:assert/strict";
import { writeSync } from "node:fs";
import path from "node:path";
import { Writable } from "node:stream";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { temporaryFolder } from "@kip/testing";
import { copyOutput } from "./copy-streams.ts";
import { NamedPipes } from "./named-pipes.ts";

describe("copyOutput()", () => {
  it("reads what a process has left in the pipe, however busy this one is when it ends", async () => {
    using folder = temporaryFolder();
    const pipe = await new NamedPipes(path.join(folder.path, "pipes")).fromChild();
    const printed: Buffer[] = [];
    const target = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        printed.push(chunk);
        done();
      },
    });
    const exited = Promise.withResolvers<void>();
    const copied = copyOutput(pipe.socket, target, exited.promise);
    await setImmediate();
    // All in one turn of the event loop, after it has checked for readable data.
    writeSync(pipe.childFd, "last words");
    exited.resolve();
    await exited.promise;
    const end = performance.now() + 400;
    while (performance.now() < end);
    await copied;
    pipe.release();
    assert.equal(Buffer.concat(printed).toString(), "last words");
  });
});
