// NodePorts with real sockets. 127.0.0.2 represents the namespace.
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect, createServer, Server, type AddressInfo, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { runCommand, silentLogger, systemClock, type Logger } from "@kip/base";
import type { ServiceView, ViewChange } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NodePorts } from "../src/network/node-ports.ts";
import { RelayClients } from "../src/network/relay-clients.ts";

const here = "127.0.0.1";
const target = "127.0.0.2";

function change(view: ServiceView | undefined): ViewChange {
  return { number: 1, services: new Map([["default/web", view]]), buckets: [], groups: [] };
}

function service(...ports: readonly (readonly ["TCP" | "UDP" | "SCTP", number])[]): ServiceView {
  const made = ports.map(([protocol, nodePort]) => {
    return { name: "", protocol, port: 80, endpoints: ["10.0.0.1:80"], nodePort };
  });
  return { clusterIps: ["10.96.0.10"], ports: made };
}

/** Answers with what it received, once its client has half-closed. @param greeting sent at once */
async function echo(greeting = ""): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.write(greeting);
    text(socket).then(
      (said) => socket.end(`heard ${said}`),
      () => {}, // the client's connection was reset
    );
  });
  server.listen(0, target);
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port }; // it listens on TCP
}

async function say(port: number): Promise<string> {
  const socket = connect({ host: here, port, allowHalfOpen: true });
  socket.end("hello");
  return await text(socket).catch((error: unknown) => (error as NodeJS.ErrnoException).code ?? "");
}

describe("NodePorts", { timeout: 30_000 }, () => {
  let server: Server;
  let port: number;
  before(async () => ({ server, port } = await echo()));
  after(() => server.close());
  const nodePorts = (logger: Logger = silentLogger, clock = systemClock) =>
    new NodePorts({ addresses: [here], target, clock, logger });

  it("pass connections on, each direction to its own end, while a Service has them", async () => {
    await using ports = nodePorts();
    await ports.apply(change(service(["TCP", port], ["SCTP", port])));
    assert.equal(await say(port), "heard hello");
    await ports.apply(change(service()));
    assert.equal(await say(port), "ECONNREFUSED");
  });

  it("are not there for a Service without an IPv4 address: no rule leads them on", async () => {
    await using ports = nodePorts();
    await ports.apply(change({ ...service(["TCP", port]), clusterIps: ["fd00::10"] }));
    assert.equal(await say(port), "ECONNREFUSED");
  });

  it("refuse clients while a Service has no IPv4 endpoint, and keep connections that are open", async () => {
    const { server: echoing, port: echoed } = await echo("hello, ");
    await using ports = nodePorts();
    const apply = async (...endpoints: readonly string[]): Promise<void> => {
      const { ports: made, ...view } = service(["TCP", echoed]);
      await ports.apply(change({ ...view, ports: made.map((each) => ({ ...each, endpoints })) }));
    };
    /** Sends data at the end of a connection that was already answered. */
    const opened = async (): Promise<(word: string) => Promise<string>> => {
      const socket = connect({ host: here, port: echoed, allowHalfOpen: true });
      await once(socket, "data");
      return async (word) => await text(socket.end(word));
    };
    await apply();
    assert.equal(await say(echoed), "ECONNREFUSED");
    await apply("10.0.0.1:80");
    const first = await opened();
    await apply("[fd00::1]:80");
    assert.equal(await say(echoed), "ECONNREFUSED");
    assert.equal(await first("one"), "heard one");
    await apply("10.0.0.1:80");
    const second = await opened();
    await apply();
    await apply("10.0.0.1:80");
    assert.equal(await say(echoed), "hello, heard hello");
    assert.equal(await second("two"), "heard two");
    const third = await opened();
    await apply();
    await ports.apply(change(service()));
    assert.equal(await third("three").catch(() => ""), "");
    echoing.close();
  });

  it("reset a connection that is refused in the namespace", async () => {
    const { server: other, port: closed } = await echo();
    other.close();
    await using ports = nodePorts();
    await ports.apply(change(service(["TCP", closed])));
    assert.equal(await say(closed), "ECONNRESET");
  });

  it("pass packets on, and answers back to their clients", async () => {
    const answering = createSocket("udp4");
    answering.on("message", (message, from) =>
      answering.send(`heard ${message.toString()}`, from.port, from.address),
    );
    answering.bind(0, target);
    await once(answering, "listening");
    await using ports = nodePorts();
    await ports.apply(change(service(["UDP", answering.address().port])));
    for (const name of ["one", "two"]) {
      const client = createSocket("udp4");
      client.send(name, answering.address().port, here);
      const [answer] = (await once(client, "message")) as [Buffer];
      assert.equal(answer.toString(), `heard ${name}`);
      client.close();
    }
    answering.close();
  });

  it("pass packets on from port 0, whose answers go nowhere", async () => {
    const answering = createSocket("udp4");
    const heard: string[] = [];
    answering.on("message", (message, from) => {
      heard.push(message.toString());
      answering.send(message, from.port, from.address);
    });
    answering.bind(0, target);
    await once(answering, "listening");
    const { port: udpPort } = answering.address();
    await using ports = nodePorts();
    await ports.apply(change(service(["UDP", udpPort])));
    const udp = Buffer.from([
      0,
      0,
      udpPort >> 8,
      udpPort & 255,
      0,
      11,
      0,
      0,
      ...Buffer.from("one"),
    ]);
    await runCommand("socat", ["-u", "-", `IP4-SENDTO:${here}:17`], { input: udp });
    while (heard.length === 0) await once(answering, "message");
    const client = createSocket("udp4");
    client.send("two", udpPort, here);
    await once(client, "message");
    assert.deepEqual(heard, ["one", "two"]);
    client.close();
    answering.close();
  });

  it("answer a load balancer's health checks: 200 with ready endpoints, 503 without", async () => {
    const { server: other, port: checked } = await echo();
    other.close();
    await once(other, "close");
    await using ports = nodePorts();
    const balanced = (localReady: number): ViewChange =>
      change({ ...service(["TCP", port]), healthCheck: { port: checked, localReady } });
    const check = async (path = "/"): Promise<Response> =>
      await fetch(`http://${here}:${checked}${path}`, { signal: AbortSignal.timeout(10_000) });
    await ports.apply(balanced(2));
    const healthy = await check("/any/path");
    assert.equal(healthy.status, 200);
    assert.equal(healthy.headers.get("x-load-balancing-endpoint-weight"), "2");
    assert.deepEqual(await healthy.json(), {
      service: { namespace: "default", name: "web" },
      localEndpoints: 2,
      serviceProxyHealthy: true,
    });
    assert.equal(await say(port), "heard hello");
    await ports.apply(balanced(0));
    const drained = await check();
    assert.equal(drained.status, 503);
    assert.equal(((await drained.json()) as { localEndpoints: number }).localEndpoints, 0);
    const silent = connect({ host: here, port: checked });
    await once(silent, "connect");
    const closed = once(silent, "close");
    await ports.apply(change(service(["TCP", port])));
    await closed;
    await assert.rejects(check());
  });

  it("report a port that another program has, and take it when it is free", async () => {
    const program = createServer().listen(port, here);
    await once(program, "listening");
    const lines: unknown[] = [];
    const warn = (message: string, fields: object = {}) => void lines.push({ message, ...fields });
    const clock = new ManualClock();
    await using ports = nodePorts({ ...silentLogger, warn }, clock);
    await ports.apply(change(service(["TCP", port])));
    await ports.apply(change(service(["TCP", port])));
    assert.equal(lines.length, 1);
    assert.match(JSON.stringify(lines), /EADDRINUSE.*another nodePort/);
    program.close();
    await once(program, "close");
    await clock.advance(30_000);
    while ((await say(port)) !== "heard hello") await new Promise(setImmediate);
  });

  it("keep no descriptor for a UDP port that another program has", async () => {
    const program = createSocket("udp4");
    program.bind(0, here);
    await once(program, "listening");
    const descriptors = (): number => readdirSync("/proc/self/fd").length;
    await using ports = nodePorts();
    const before = descriptors();
    for (let i = 0; i < 20; i++) {
      await ports.apply(change(service(["UDP", program.address().port])));
      await ports.apply(change(service()));
    }
    await new Promise(setImmediate); // sockets close after a round of events
    assert.ok(descriptors() < before + 10, `${descriptors()} after ${before}`);
    program.close();
  });

  it("refuse connections and forget silent clients above a limit of all ports together", async () => {
    const answering = createSocket("udp4");
    const heard: number[] = [];
    answering.on("message", (message, from) => {
      heard.push(from.port);
      answering.send(message, from.port, from.address);
    });
    answering.bind(0, target);
    await once(answering, "listening");
    const { port: udpPort } = answering.address();
    const { server: other, port: otherPort } = await echo();
    await using ports = new NodePorts({
      addresses: [here],
      target,
      clock: systemClock,
      logger: silentLogger,
      clients: new RelayClients(1),
    });
    await ports.apply(change(service(["TCP", port], ["TCP", otherPort], ["UDP", udpPort])));
    const first = connect({ host: here, port });
    await once(first, "connect");
    first.write("hello");
    assert.equal(await say(otherPort), "ECONNRESET");
    first.end();
    assert.equal(await text(first), "heard hello");
    const clients = [createSocket("udp4"), createSocket("udp4")] as const;
    for (const client of [clients[0], clients[0], clients[1], clients[0]]) {
      client.send("hello", udpPort, here);
      await once(client, "message");
    }
    assert.equal(heard[0], heard[1]);
    assert.equal(new Set(heard).size, 3);
    for (const socket of [...clients, answering]) socket.close();
    other.close();
  });

  it("count connections that stay when the last endpoint goes together with those of the next one", async () => {
    const { server: echoing, port: echoed } = await echo("hello, ");
    const clients = new RelayClients(10, 2);
    const common = { target, clock: systemClock, logger: silentLogger };
    await using ports = new NodePorts({ ...common, addresses: [here], clients });
    const { ports: made, ...view } = service(["TCP", echoed]);
    const idle = { ...view, ports: made.map((each) => ({ ...each, endpoints: [] })) };
    const open: Socket[] = [];
    for (let turn = 0; turn < 2; turn++) {
      await ports.apply(change({ ...view, ports: made }));
      const socket = connect({ host: here, port: echoed, allowHalfOpen: true });
      socket.on("error", () => {}); // one is reset
      await once(socket, "data");
      open.push(socket);
      await ports.apply(change(idle));
    }
    await ports.apply(change({ ...view, ports: made }));
    // The first one is closed, because its relay no longer listens.
    assert.equal(await say(echoed), "hello, heard hello");
    const ends = open.map(async (socket) => await text(socket.end("x")).catch(() => "ended"));
    assert.deepEqual(await Promise.all(ends), ["ended", "heard x"]);
    echoing.close();
  });

  it("answer packets from the address that was asked, where all of the computer are wanted", async () => {
    const answering = createSocket("udp4");
    answering.on("message", (message, from) => answering.send(message, from.port, from.address));
    answering.bind(0, target);
    await once(answering, "listening");
    const { port: udpPort } = answering.address();
    const addresses = ["0.0.0.0"];
    const common = { target, clock: systemClock, logger: silentLogger };
    await using ports = new NodePorts({ ...common, addresses });
    await ports.apply(change(service(["UDP", udpPort])));
    const client = createSocket("udp4");
    client.send("hello", udpPort, here);
    const [, from] = (await once(client, "message")) as [Buffer, { readonly address: string }];
    assert.equal(from.address, here);
    // A single socket for all addresses would also occupy the port here.
    const free = createSocket("udp4").bind(udpPort, "127.0.0.3");
    await once(free, "listening");
    for (const socket of [client, answering, free]) socket.close();
  });

  it("leave no port open whose Service goes while the port is tried again", async (t) => {
    const { server: other, port: taken } = await echo();
    const blocking = createServer().listen(taken, here);
    await once(blocking, "listening");
    const clock = new ManualClock();
    await using ports = nodePorts(silentLogger, clock);
    await ports.apply(change(service(["TCP", taken])));
    blocking.close();
    await once(blocking, "close");
    const applied = Promise.withResolvers<void>();
    const listen = Reflect.get(Server.prototype, "listen") as (to: object) => Server;
    t.mock.method(Server.prototype, "listen", function (this: Server, to: object) {
      process.nextTick(() => applied.resolve(ports.apply(change(undefined))));
      return listen.call(this, to);
    });
    await clock.advance(30_000);
    await applied.promise;
    assert.equal(await say(taken), "ECONNREFUSED");
    other.close();
  });

  it("leave nothing open when they end", async () => {
    const ports = nodePorts();
    await ports.apply(change(service(["TCP", port], ["UDP", port])));
    const socket = connect({ host: here, port });
    await once(socket, "connect");
    const closed = once(socket, "close");
    await ports[Symbol.asyncDispose]();
    await closed;
    assert.equal(await say(port), "ECONNREFUSED");
  });
});
