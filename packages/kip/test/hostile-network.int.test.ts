// Cells that misuse the network stream, next to cells that behave correctly, over real HTTP/2 on loopback.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import http2, { type Http2SecureServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { AgentClient, cellServerName } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { NetworkViews } from "@kip/cluster-network";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, encodeLine, TableDigest } from "@kip/network-view";
import { CertificateAuthority } from "@kip/pki";
import { followNetwork } from "../src/cell/steps/follow-network.ts";
import { cellStateWith } from "../src/testing/index.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void; // what the flag makes

const hour = 3_600_000;
const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs: hour });
const pair = await authority.issue({
  commonName: "cell-1",
  dnsNames: [cellServerName("cell-1")],
  usages: ["server"],
  validMs: hour,
});

const line = (value: object): string => `${JSON.stringify(value)}\n`;
const noSums = line({ sums: Array<number>(bucketCount).fill(0) });

/** What hostile cells do with the stream. */
const hostile: Readonly<Record<string, (stream: ServerHttp2Stream) => void>> = {
  "sends sums that are not valid": (stream) => stream.write(line({ sums: [1] })),
  "sends sums of no table": (stream) => {
    stream.write(line({ sums: Array.from({ length: bucketCount }, (_, i) => i + 1) }));
    confirm(stream, (number) => number);
  },
  "confirms other changes": (stream) => {
    stream.write(noSums);
    confirm(stream, (number) => number + 7);
  },
  "confirms ten thousand changes ahead": (stream) => {
    stream.write(noSums);
    for (let applied = 1; applied <= 10_000; applied++) stream.write(line({ applied }));
    stream.resume();
  },
  "sends a line without an end": (stream) => {
    const more = (): void => {
      while (!stream.destroyed && stream.write("x".repeat(16_384)));
    };
    stream.on("drain", more);
    more();
  },
  "puts nothing in force": (stream) => {
    stream.write(noSums);
    stream.resume();
  },
  "reads nothing": (stream) => stream.write(noSums),
  "ends the stream": (stream) => stream.end(noSums),
};

function confirm(stream: ServerHttp2Stream, numberOf: (number: number) => number): void {
  const reader = new ChangeReader();
  stream.on("data", (chunk: Buffer) => {
    for (const { number } of reader.push(chunk))
      if (!stream.destroyed) stream.write(line({ applied: numberOf(number) }));
  });
}

/** A cell that behaves correctly, and its table. */
class HonestCell extends EventEmitter {
  readonly digest = new TableDigest();
  readonly #lines = new Map<string, string>();

  serve(stream: ServerHttp2Stream): void {
    stream.write(line({ sums: this.digest.sums }));
    const reader = new ChangeReader();
    stream.on("data", (chunk: Buffer) => {
      for (const { number, services } of reader.push(chunk)) {
        for (const [key, view] of services)
          this.#take(key, view && encodeLine({ kind: "service", key, view }));
        stream.write(line({ applied: number }));
        this.emit("change");
      }
    });
  }

  async has(text: string): Promise<void> {
    while (![...this.#lines.values()].some((one) => one.includes(text))) await once(this, "change");
  }

  #take(key: string, after: string | undefined): void {
    this.digest.change(key, this.#lines.get(key), after);
    if (after === undefined) this.#lines.delete(key);
    else this.#lines.set(key, after);
  }
}

const serviceCount = 1000;
const meta = (name: string) => ({ namespace: "default", name, uid: name, resourceVersion: "1" });

function service(number: number): StoredService {
  const address = `10.96.${number >> 8}.${number & 255}`;
  return {
    metadata: meta(`s${number}`),
    spec: { clusterIP: address, clusterIPs: [address], ports: [{ port: 80 }] },
  };
}

function slice(number: number, address: string): EndpointSlice {
  const labels = { "kubernetes.io/service-name": `s${number}` };
  return {
    metadata: { ...meta(`s${number}-1`), labels },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: [{ addresses: [address] }],
  };
}

/** Kip's side: the views of a cluster, and the cells that follow them. */
class Bench implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #servers: Http2SecureServer[] = [];
  readonly #clients: AgentClient[] = [];
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: systemClock,
    periodMs: 1,
    signal: this.#stop.signal,
  });
  /** Number of streams requested by cells. */
  streams = 0;

  constructor() {
    for (let i = 0; i < serviceCount; i++) this.views.setService(service(i));
  }

  async connect(answer: (stream: ServerHttp2Stream) => void): Promise<AgentClient> {
    const { certificate: cert, key } = pair;
    const server = http2.createSecureServer({
      ca: authority.certificate,
      cert,
      key,
      requestCert: true,
    });
    server.on("stream", (stream: ServerHttp2Stream) => {
      this.streams += 1;
      stream.on("error", () => {});
      stream.respond({ ":status": 200 });
      answer(stream);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    this.#servers.push(server);
    const { port } = server.address() as AddressInfo; // it listens on TCP
    const client = await AgentClient.connect({
      address: "127.0.0.1",
      port,
      cellName: "cell-1",
      ca: authority.certificate,
      ...kip,
      logger: silentLogger,
    });
    this.#clients.push(client);
    const network = {
      settings: async () => undefined,
      isWatched: async () => true,
      hasTiers: () => false,
      synced: async () => {},
      subscribe: (cell: Parameters<NetworkViews["subscribe"]>[0]) => this.views.subscribe(cell),
    };
    const tools = { network, onProblem: () => {}, clock: systemClock, logger: silentLogger };
    const state = cellStateWith();
    void followNetwork(tools, client, { state: () => state });
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const client of this.#clients) await client[Symbol.asyncDispose]();
    for (const server of this.#servers) server.close();
  }
}

describe("hostile cell: the cluster's network", { timeout: 120_000 }, () => {
  it("changes nothing that others are sent, nor when, and takes no memory for what it does not take", async () => {
    await using bench = new Bench();
    const cells = [new HonestCell(), new HonestCell()];
    for (const cell of cells) await bench.connect((stream) => cell.serve(stream));
    const clients: AgentClient[] = [];
    for (const answer of Object.values(hostile))
      for (let i = 0; i < 3; i++) clients.push(await bench.connect(answer));
    const change = async (round: number): Promise<void> => {
      const address = `10.1.${round >> 8}.${round & 255}`;
      for (let i = 0; i < 20; i++)
        bench.views.setSlice(slice((round * 20 + i) % serviceCount, address));
      // Both cells must have each change before the next one is made.
      for (const cell of cells) await cell.has(`"${address}:8080"`);
    };
    const memory: number[] = [];
    for (let round = 0; round < 300; round++) {
      await change(round);
      if (round % 100 !== 99) continue;
      collect();
      memory.push(process.memoryUsage().heapUsed);
    }
    for (const cell of cells) assert.deepEqual(cell.digest.sums, bench.views.services.sums);
    const [, second = 0, third = 0] = memory;
    assert.ok(third - second < 4e6, `memory grew: ${memory.join(", ")}`);
    // Streams are repeated over the same connection, and not at once but after a pause.
    assert.ok(bench.streams < 10 * (cells.length + clients.length), `${bench.streams} streams`);
    for (const client of clients) {
      const isClosed = await Promise.race([client.closed.then(() => true), Promise.resolve(false)]);
      assert.equal(isClosed, false);
    }
  });
});
