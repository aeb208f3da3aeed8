import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { duplexPair, PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { isSystemError } from "@kip/base";
import { connectPort, connectProcess } from "./connect.ts";

describe("connectProcess()", () => {
  it("passes on input, both outputs and the exit code", async () => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const child = spawn("sh", ["-c", "cat; echo bad >&2; exit 3"]);
    const ended = connectProcess(child, {
      tty: false,
      stdin: Readable.from(["good"]),
      stdout,
      stderr,
    });
    assert.deepEqual(await Promise.all([text(stdout), text(stderr)]), ["good", "bad\n"]);
    assert.deepEqual(await ended, { exitCode: 3 });
  });

  it("does not wait for streams that the client did not ask for", async () => {
    const child = spawn("sh", ["-c", "head -c 1000000 /dev/zero; kill -9 $$"]);
    assert.deepEqual(await connectProcess(child, { tty: false }), { exitCode: 137 });
  });

  it("fails if the program cannot be started", async () => {
    await assert.rejects(connectProcess(spawn("/no/such/program"), { tty: false }), (error) =>
      isSystemError(error, "ENOENT"),
    );
  });
});

describe("connectPort()", () => {
  it("copies both directions to their ends, and fails on a port without a listener", async () => {
    const server = net.createServer({ allowHalfOpen: true }, (socket) => void socket.pipe(socket));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo; // a TCP server that listens
    const [near, far] = duplexPair();
    const to = { host: "127.0.0.1", port };
    const copied = connectPort(to, far, new AbortController().signal);
    near.end("there and back");
    assert.equal(await text(near), "there and back");
    await copied;
    server.close();
    await once(server, "close");
    await assert.rejects(connectPort(to, far, new AbortController().signal), (error) =>
      isSystemError(error, "ECONNREFUSED"),
    );
  });
});
