// How fast exec and port-forward are, beside a bare TLS pipe in the same run:
//   node packages/virtual-kubelet/test/stream-throughput.ts [megabytes] [runs]
// Server, client and the program at the far end are processes of their own on this machine.
import { fork } from "node:child_process";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { finished } from "node:stream/promises";
import type { Duplex } from "node:stream";
import tls from "node:tls";
import { CertificateAuthority } from "@kip/pki";
import { WebSocket } from "ws";
import type { ClientTls } from "./kubelet-api-fixture.ts";
import type { TargetAnswer, TargetQuestion } from "./kubelet-api-target.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";

const host = "127.0.0.1";
const megabytes = Number(process.argv[2] ?? 200);
const runs = Number(process.argv[3] ?? 3);
const total = megabytes * 1_000_000;
const piece = Buffer.alloc(32 * 1024, 0x61);
const pieces = Math.ceil(total / piece.length);
const down = `head -c ${total} /dev/zero`;
const up = "wc -c";

const authority = await CertificateAuthority.create({ commonName: "bench", validMs: 3_600_000 });
const issued = { ipAddresses: [host], validMs: 3_600_000 };
const server = await authority.issue({ ...issued, commonName: "server", usages: ["server"] });
const pair = await authority.issue({ ...issued, commonName: "client", usages: ["client"] });
const client: ClientTls = { ca: authority.certificate, cert: pair.certificate, key: pair.key };
const target = fork(new URL("./kubelet-api-target.ts", import.meta.url));
const settings = { ...server, clientCa: authority.certificate };
const port = await ask({ ask: "start", tls: settings });
const barePort = await ask({ ask: "bare", tls: settings });

// The far end of port-forward: sends everything, or takes everything and closes.
const source = net.createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", (first: Buffer) => {
    if (first[0] === "d".charCodeAt(0)) void sendAll(socket).then(() => socket.end());
    else {
      let taken = first.length;
      socket.on("data", (chunk: Buffer) => {
        taken += chunk.length;
        if (taken >= total) socket.end();
      });
    }
  });
});
source.listen(0, host);
await once(source, "listening");
const farPort = (source.address() as AddressInfo).port;

const ways: Readonly<Record<string, () => Promise<void>>> = {
  "exec out, bare TLS": async () => await count(await bare(`e${down}`)),
  "exec out, SPDY": async () => await spdyExec(down, false),
  "exec out, WebSocket": async () => await webSocketExec(down, false),
  "exec in, bare TLS": async () => {
    const socket = await bare(`e${up}`);
    void sendAll(socket).then(() => socket.end());
    await count(socket);
  },
  "exec in, SPDY": async () => await spdyExec(up, true),
  "exec in, WebSocket": async () => await webSocketExec(up, true),
  "forward out, bare TLS": async () => {
    const socket = await bare(`f${farPort}`);
    socket.write("d");
    await count(socket);
  },
  "forward out, SPDY": async () => await spdyForward("d"),
  "forward in, bare TLS": async () => {
    const socket = await bare(`f${farPort}`);
    void sendAll(socket);
    await count(socket);
  },
  "forward in, SPDY": async () => await spdyForward("u"),
};

const speeds = new Map(Object.keys(ways).map((name) => [name, [] as number[]]));
for (let run = 0; run < runs; run++) {
  for (const [name, way] of Object.entries(ways)) {
    const before = performance.now();
    await way();
    speeds.get(name)?.push(total / 1e6 / ((performance.now() - before) / 1000));
  }
}
const medians = [...speeds].map(([name, list]): [string, number] => [
  name,
  list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0,
]);
for (const [name, middle] of medians)
  console.log(`${name.padEnd(24)} ${middle.toFixed(0).padStart(6)} MB/s`);
if (process.send) {
  // A benchmark started us.
  await new Promise((resolve) => process.send?.(Object.fromEntries(medians), resolve));
}
target.kill();
source.close();
process.exit();

async function ask(question: TargetQuestion): Promise<number> {
  target.send(question);
  const [answer] = (await once(target, "message")) as [TargetAnswer];
  return answer.port ?? 0;
}

async function bare(line: string): Promise<tls.TLSSocket> {
  const socket = tls.connect({ host, port: barePort, ca: authority.certificate });
  await once(socket, "secureConnect");
  socket.write(`${line}\n`);
  await new Promise(setImmediate); // the line is a message of its own
  return socket;
}

async function sendAll(socket: Duplex): Promise<void> {
  for (let index = 0; index < pieces; index++) {
    if (!socket.write(piece)) await once(socket, "drain");
  }
}

async function count(socket: Duplex): Promise<void> {
  socket.on("data", () => {});
  await finished(socket, { writable: false });
  socket.destroy();
}

function execPath(command: string, withInput: boolean): string {
  const words = command.split(" ").map((word) => `command=${encodeURIComponent(word)}`);
  return `/exec/ns/p/c?${words.join("&")}&output=1${withInput ? "&input=1" : ""}`;
}

async function spdy(path: string, protocol: string): Promise<SpdyTestClient> {
  return await SpdyTestClient.connect({ host, port, path, ...client }, protocol);
}

async function spdySend(session: SpdyTestClient, stream: number): Promise<void> {
  for (let index = 0; index < pieces; index++) {
    session.data(stream, piece);
    if (session.socket.writableNeedDrain) await once(session.socket, "drain");
  }
}

/** Resolves when the server has ended a stream. */
async function spdyEnd(session: SpdyTestClient, stream: number): Promise<void> {
  await new Promise<void>((resolve) => {
    session.onData = ({ streamId, fin }) => {
      if (streamId === stream && fin) resolve();
    };
  });
}

async function spdyExec(command: string, withInput: boolean): Promise<void> {
  const session = await spdy(execPath(command, withInput), "v4.channel.k8s.io");
  await session.open({ streamType: "error" });
  const output = await session.open({ streamType: "stdout" });
  const input = withInput ? await session.open({ streamType: "stdin" }) : 0;
  const ended = spdyEnd(session, output);
  if (withInput) {
    await spdySend(session, input);
    session.data(input, "", true);
  }
  await ended;
  session.socket.destroy();
}

async function spdyForward(first: string): Promise<void> {
  const session = await spdy("/portForward/ns/p", "portforward.k8s.io");
  const labels = { port: String(farPort), requestID: "0" };
  await session.open({ streamType: "error", ...labels });
  const data = await session.open({ streamType: "data", ...labels });
  const ended = spdyEnd(session, data);
  session.data(data, first);
  if (first === "u") await spdySend(session, data);
  await ended;
  session.socket.destroy();
}

async function webSocketExec(command: string, withInput: boolean): Promise<void> {
  const url = `wss://${host}:${port}${execPath(command, withInput)}`;
  const socket = new WebSocket(url, "v5.channel.k8s.io", { ...client });
  socket.on("message", () => {});
  const closed = once(socket, "close");
  await once(socket, "open");
  if (withInput) {
    const message = Buffer.concat([Buffer.of(0), piece]);
    for (let index = 0; index < pieces; index++) {
      await new Promise<void>((resolve) => {
        socket.send(message, () => resolve());
      });
    }
    socket.send(Buffer.of(255, 0));
  }
  await closed;
}
