import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, it } from "node:test";
import { once } from "node:events";
import { temporaryFolder } from "@kip/testing";
import { copyInput, copyOutput, finishOutput } from "./copy-streams.ts";
import { NamedPipes } from "./named-pipes.ts";

describe("NamedPipes", () => {
  it("has a child read, write and open its pipes again", async () => {
    using folder = temporaryFolder();
    const pipes = new NamedPipes(path.join(folder.path, "pipes"));
    const [stdin, stdout] = [await pipes.toChild(), await pipes.fromChild()];
    const child = spawn("sh", ["-c", "cat /dev/stdin > /dev/stdout"], {
      stdio: [stdin.childFd, stdout.childFd, "inherit"],
    });
    stdin.release();
    stdout.release();
    const input = Buffer.alloc(3_000_000, "abc");
    const target = new PassThrough();
    const all = buffer(target);
    void copyInput(Readable.from([input.subarray(0, 7), input.subarray(7)]), stdin.socket);
    const exited = once(child, "exit");
    await copyOutput(stdout.socket, target, exited);
    await finishOutput(target);
    assert.deepEqual(await all, input);
    assert.deepEqual((await exited)[0], 0);
    // Used pipes are unlinked.
    assert.equal((await readdir(path.join(folder.path, "pipes"))).length, 10);
  });
});

describe("copyInput()", () => {
  it("ends when the reader goes away", async () => {
    using folder = temporaryFolder();
    const pipes = new NamedPipes(path.join(folder.path, "pipes"));
    const stdin = await pipes.toChild();
    stdin.release();
    const endless = new Readable({
      read() {
        this.push(Buffer.alloc(65_536));
      },
    });
    await copyInput(endless, stdin.socket);
    assert.equal(stdin.socket.destroyed, true);
  });
});
