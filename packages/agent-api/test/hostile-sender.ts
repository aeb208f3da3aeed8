// An agent in its own process, like that of a hostile cell, which sends as fast as it can. Arguments: a folder with PEM files,
// and the kind of data. Prints the port.
import { readFileSync } from "node:fs";
import http2, { type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import path from "node:path";
import tls, { type TLSSocket } from "node:tls";

const [, , folder = "", kind = ""] = process.argv;
const pem = (name: string): string => readFileSync(path.join(folder, name), "utf8");
const identity = {
  ca: pem("ca"),
  cert: pem("certificate"),
  key: pem("key"),
  requestCert: true,
  ALPNProtocols: ["h2"],
};
const time = "2026-01-01T00:00:00Z";
const container = { name: "c", image: "i", ready: false, started: false, restartCount: 0 };
let generation = 0;

function report(change: object = {}): string {
  generation += 1;
  const lists = { initContainers: [], containers: [], ephemeralContainers: [], events: [] };
  const pod = { podUid: "1", generation, phase: "Running", startTime: time, timingsMs: {} };
  return `${JSON.stringify({ ...pod, ...lists, ...change })}\n`;
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** Lines of the status stream, which are sent repeatedly. */
const lines: Readonly<Record<string, () => string>> = {
  timings: () => report({ timingsMs: Object.fromEntries(times(20_000, (n) => [`t${n}`, n])) }),
  containers: () => report({ containers: times(4000, () => container) }),
  events: () =>
    report({
      events: times(4000, (sequence) => ({
        sequence,
        type: "Normal",
        reason: "r",
        message: "m",
        time,
      })),
    }),
  "many keys": () => report(Object.fromEntries(times(30_000, (n) => [`k${n}`, n]))),
  "nested lists": () => report({ x: times(50, () => nested(1000)) }),
  "small reports": () => report().repeat(20),
  "blank lines": () => " \n".repeat(32_768),
};

function nested(depth: number): unknown {
  return JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
}

/** An HTTP/2 frame: length, type, flags, stream, payload. */
function frame(type: number, stream: number, payload: readonly number[] = [], flags = 0): Buffer {
  return Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]);
}

/** Frames below the status stream, which are sent repeatedly. */
const frames: Readonly<Record<string, Buffer>> = {
  pings: frame(
    6,
    0,
    times(8, () => 0),
  ),
  settings: frame(4, 0, [0, 4, 0, 1, 0, 0]),
  "window updates": frame(8, 0, [0, 0, 0, 1]),
  "unknown frames": frame(200, 1),
  "frames of one byte": frame(0, 1, [10]),
};

function serveLines(make: () => string): void {
  const server = http2.createSecureServer(identity);
  server.on("sessionError", () => {});
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => {});
    stream.respond({ ":status": 200 });
    const more = (): void => {
      while (!stream.destroyed && stream.write(make()));
    };
    stream.on("drain", more);
    more();
  });
  server.listen(0, "127.0.0.1", () => announce(server));
}

/** Behaves like an honest agent whose pod changes often. */
function serveHonestly(): void {
  const server = http2.createSecureServer(identity);
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => {});
    stream.respond({ ":status": 200 });
    const timer = setInterval(
      () => stream.write(report({ containers: times(3, () => container) })),
      500,
    );
    stream.once("close", () => clearInterval(timer));
  });
  server.listen(0, "127.0.0.1", () => announce(server));
}

/** Sends one byte at a time, as fast as HTTP/2 accepts them. Each byte is the next number. */
function serveSingleBytes(): void {
  const server = http2.createSecureServer(identity);
  server.on("sessionError", () => {});
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => {});
    stream.respond({ ":status": 200 });
    let byte = 0;
    const more = (): void => {
      byte = (byte + 1) % 256;
      if (!stream.destroyed) stream.write(Buffer.of(byte), more);
    };
    more();
  });
  server.listen(0, "127.0.0.1", () => announce(server));
}

/** @param count number of blocks of 2000 frames. @default without end */
function serveFrames(repeated: Buffer, count = Infinity): void {
  const block = Buffer.concat(times(2000, () => repeated));
  const server = tls.createServer(identity, (socket: TLSSocket) => {
    socket.on("error", () => {});
    socket.write(frame(4, 0)); // settings
    socket.once("data", () => {
      socket.write(frame(4, 0, [], 1)); // acknowledges the peer's settings
    });
    let isAnswered = false;
    socket.on("data", (data: Buffer) => {
      // The head of the response follows the first request, which has stream 1.
      if (isAnswered || !data.includes(Buffer.from([1, 5, 0, 0, 0, 1]))) return;
      isAnswered = true;
      socket.write(frame(1, 1, [0x88], 4)); // :status 200
      let left = count;
      const more = (): void => {
        while (!socket.destroyed && left-- > 0 && socket.write(block));
      };
      socket.on("drain", more);
      more();
    });
  });
  server.listen(0, "127.0.0.1", () => announce(server));
}

function announce(server: { address(): unknown }): void {
  console.log((server.address() as AddressInfo).port); // the server listens on TCP
}

const ofLines = lines[kind];
const ofFrames = frames[kind];
if (kind === "honest") serveHonestly();
else if (kind === "single bytes") serveSingleBytes();
else if (kind === "60,000 frames of one byte") serveFrames(frame(0, 1, [10]), 30);
else if (ofLines) serveLines(ofLines);
else if (ofFrames) serveFrames(ofFrames);
else throw new Error(`Cannot send ${kind}`);
