// A process in a network namespace of its own that does what a test asks it by lines of JSON: listen, connect, send.
import { createSocket } from "node:dgram";
import { connect, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";

export interface PeerRequest {
  readonly id: number;
  readonly do: "listen" | "tcp" | "udp" | "flood" | "hold" | "echo";
  readonly host: string;
  readonly port: number;
  readonly protocol?: "tcp" | "udp";
  readonly localPort?: number;
  readonly timeoutMs?: number;
}

const held = new Map<number, Socket>();

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as PeerRequest; // written by the test
  answer(request).then(
    (text) => console.log(JSON.stringify({ id: request.id, text })),
    (error: unknown) => console.log(JSON.stringify({ id: request.id, error: codeOf(error) })),
  );
}

async function answer(request: PeerRequest): Promise<string> {
  switch (request.do) {
    case "listen":
      return await listen(request);
    case "tcp":
      return await talk(request);
    case "udp":
      return await exchange(request);
    case "flood":
      return await flood(request);
    case "hold":
      return await hold(request);
    case "echo":
      break;
  }
  return await echo(request);
}

/** Answers each connection and packet with the own and the client's address. */
async function listen({ host, port, protocol }: PeerRequest): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  if (protocol === "udp") {
    const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
    socket.on("message", (_message, from) => {
      socket.send(`${host} ${from.address}`, from.port, from.address);
    });
    socket.once("error", reject).bind(port, host, () => resolve("ok"));
    return await promise;
  }
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.write(`${host} ${socket.remoteAddress ?? ""}\n`);
    socket.on("data", (data) => socket.write(data));
  });
  server.once("error", reject).listen(port, host, () => resolve("ok"));
  return await promise;
}

async function talk({ host, port, timeoutMs = 10_000 }: PeerRequest): Promise<string> {
  const socket = connect({ host, port });
  const timer = setTimeout(() => socket.destroy(new Error("timeout")), timeoutMs);
  try {
    return await firstLine(socket);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

async function hold({ id, host, port }: PeerRequest): Promise<string> {
  const socket = connect({ host, port });
  held.set(id, socket);
  return await firstLine(socket);
}

/** Sends something over the connection of an earlier "hold", whose id is the port. */
async function echo({ port, timeoutMs = 10_000 }: PeerRequest): Promise<string> {
  const socket = held.get(port);
  if (!socket) throw new Error("no such connection");
  const timer = setTimeout(() => socket.destroy(new Error("timeout")), timeoutMs);
  socket.write("again\n");
  return await firstLine(socket).finally(() => clearTimeout(timer));
}

async function firstLine(socket: Socket): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  socket.once("data", (data) => resolve(data.toString().trim()));
  socket.once("error", reject);
  socket.once("end", () => reject(new Error("ended")));
  return await promise;
}

async function exchange(request: PeerRequest): Promise<string> {
  const { host, port, localPort = 0, timeoutMs = 10_000 } = request;
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const timer = setTimeout(() => reject(new Error("timeout")), timeoutMs);
  socket.once("message", (message) => resolve(message.toString()));
  socket.once("error", reject);
  // A connected socket learns that nothing listens. Its callback gets an error, which has no type.
  const send = (error?: unknown): void => {
    if (error === undefined) socket.send("hello");
    else reject(error instanceof Error ? error : new Error(codeOf(error)));
  };
  socket.bind(localPort, () => socket.connect(port, host, send));
  return await promise.finally(() => {
    clearTimeout(timer);
    socket.close();
  });
}

/** Sends packets without a pause until one is answered: `answered`, or `silent` if none is. */
async function flood({ host, port, timeoutMs = 1000 }: PeerRequest): Promise<string> {
  const socket = createSocket("udp4");
  const answered = new AbortController();
  socket.on("message", () => answered.abort());
  socket.on("error", () => {});
  const endMs = performance.now() + timeoutMs;
  while (performance.now() < endMs && !answered.signal.aborted) {
    for (let i = 0; i < 64; i++) socket.send("hello", port, host);
    await new Promise((resolve) => setImmediate(resolve));
  }
  socket.close();
  return answered.signal.aborted ? "answered" : "silent";
}

function codeOf(error: unknown): string {
  if (error instanceof Error && "code" in error) return String(error.code);
  return error instanceof Error ? error.message : String(error);
}
