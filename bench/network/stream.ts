// TCP in a network namespace: `serve HOST PORT`; or `watch HOST PORT`, which prints the address that new connections reach, each time that it is
// another one; or `compare HOST PORT HOST PORT`, which sends to both in turn and prints the ratio of the second to the first: of bytes a second in
// one connection, and of the time of a connection with one request.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { median } from "../measure.ts";

interface Target {
  readonly host: string;
  readonly port: number;
}

const [what, ...words] = process.argv.slice(2);
const pieceMs = 250;
const rounds = 40;
const requests = 20;
/** Pause between two connections of `watch`, milliseconds. On a machine with two cores, other processes need the time. */
const watchIntervalMs = 5;
/** Time limit, milliseconds. Packets may be dropped while rules change, and TCP would only send them again after a second. */
const answerLimitMs = 200;

const [first, second] = [targetOf(words), targetOf(words.slice(2))];
if (what === "serve") serve(first);
else if (what === "watch") await watch(first);
else {
  // Warm up.
  await inTurn(throughput, 2);
  const result = {
    throughput: await inTurn(throughput, rounds),
    latency: await inTurn(latency, rounds),
  };
  console.log(JSON.stringify(result));
}

function targetOf([host = "", port = ""]: readonly string[]): Target {
  return { host, port: Number(port) };
}

/** Answers the first bytes of a connection with its own address, and reads further bytes. */
function serve({ host, port }: Target): void {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.write(socket.localAddress ?? ""));
    socket.resume();
  });
  server.listen(port, host, () => console.log("listens"));
}

async function watch({ host, port }: Target): Promise<void> {
  for (let before = ""; ; await sleep(watchIntervalMs)) {
    const socket = connect({ host, port }, () => socket.write("x"));
    const signal = AbortSignal.timeout(answerLimitMs);
    const address = await once(socket, "data", { signal }).then(String, () => before);
    socket.destroy();
    if (address !== before) console.log(address);
    before = address;
  }
}

/** The median of the ratios of neighbouring measurements, which other work on the machine affects equally. */
async function inTurn(measure: (target: Target) => Promise<number>, count: number) {
  const ratios: number[] = [];
  for (let round = 0; round < count; round++) {
    const isFirst = round % 2 === 0;
    const a = await measure(isFirst ? first : second);
    const b = await measure(isFirst ? second : first);
    ratios.push(isFirst ? b / a : a / b);
  }
  return median(ratios);
}

async function open(target: Target): Promise<Socket> {
  const socket = connect(target);
  socket.write("x");
  await once(socket, "data");
  return socket;
}

async function throughput(target: Target): Promise<number> {
  const socket = await open(target);
  const piece = Buffer.alloc(1 << 18);
  const began = performance.now();
  let sent = 0;
  while (performance.now() - began < pieceMs) {
    if (!socket.write(piece)) await once(socket, "drain");
    sent += piece.length;
  }
  const bytesPerMs = sent / (performance.now() - began);
  socket.destroy();
  return bytesPerMs;
}

/** The median of several requests, milliseconds. */
async function latency(target: Target): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < requests; i++) {
    const began = performance.now();
    (await open(target)).destroy();
    times.push(performance.now() - began);
  }
  return median(times);
}
