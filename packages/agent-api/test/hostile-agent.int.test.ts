// Responses of a cell are not trusted. These agents send anything but what they should.
import assert from "node:assert/strict";
import http2, { type Http2SecureServer, type ServerHttp2Stream } from "node:http2";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { describe, it, mock } from "node:test";
import { silentLogger } from "@kip/base";
import { CertificateAuthority } from "@kip/pki";
import { AgentError } from "../src/errors.ts";
import { AgentClient, cellServerName, channels, maxContainers } from "../src/index.ts";
import { frameHeader } from "../src/framing.ts";

const hour = 3_600_000;
const limit = { timeout: 30_000 };
const never = new AbortController().signal;
const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs: hour });

/** A client of an agent that handles every request like this. */
class Meeting implements AsyncDisposable {
  readonly client: AgentClient;
  readonly #server: Http2SecureServer;

  private constructor(client: AgentClient, server: Http2SecureServer) {
    this.client = client;
    this.#server = server;
  }

  static async with(
    answer: (stream: ServerHttp2Stream) => void,
    name = cellServerName("cell-1"),
  ): Promise<Meeting> {
    const pair = await authority.issue({
      commonName: "cell-1",
      dnsNames: name.split(","),
      usages: ["server"],
      validMs: hour,
    });
    const server = http2.createSecureServer({
      ca: authority.certificate,
      cert: pair.certificate,
      key: pair.key,
      requestCert: true,
    });
    server.on("stream", (stream) => {
      stream.on("error", () => {});
      answer(stream);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const client = await AgentClient.connect({
        address: "127.0.0.1",
        port: (server.address() as AddressInfo).port,
        cellName: "cell-1",
        ca: authority.certificate,
        ...kip,
        logger: silentLogger,
        answerTimeoutMs: 1000,
      });
      return new Meeting(client, server);
    } catch (error) {
      server.close();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client[Symbol.asyncDispose]();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function send(...parts: readonly (string | Buffer)[]): (stream: ServerHttp2Stream) => void {
  return (stream) => {
    stream.respond({ ":status": 200 });
    for (const part of parts) stream.write(part);
    stream.end();
  };
}

async function firstReport(client: AgentClient): Promise<unknown> {
  for await (const report of client.status(never)) return report;
  return undefined;
}

describe("hostile cell: the client of its agent", limit, () => {
  const invalid = { code: "AGENT_ANSWER_INVALID" };

  it("reads no endless answer", async () => {
    await using meeting = await Meeting.with((stream) => {
      stream.respond({ ":status": 200 });
      const more = (): void => {
        while (!stream.destroyed && stream.write(Buffer.alloc(65_536, "x")));
      };
      stream.on("drain", more);
      more();
    });
    await assert.rejects(meeting.client.info(), invalid);
    await assert.rejects(firstReport(meeting.client), invalid);
  });

  it("reads the statistics of as many containers as a report may have", async () => {
    const share = { totalMicroseconds: 1e12, avg10: 12.34, avg60: 12.34, avg300: 12.34 };
    const pressure = { some: share, full: share };
    const figures = [
      "cpuUsageNanoseconds cpuUserNanoseconds cpuSystemNanoseconds cpuPeriods cpuThrottledPeriods",
      "cpuThrottledNanoseconds cpuQuotaMicroseconds cpuPeriodMicroseconds memoryUsageBytes",
      "memoryWorkingSetBytes memoryLimitBytes memoryPeakBytes rssBytes cacheBytes mappedFileBytes",
      "kernelBytes activeFileBytes inactiveFileBytes pageFaults majorPageFaults swapBytes",
      "swapLimitBytes oomKills processes threads threadLimit",
    ].flatMap((line) => line.split(" "));
    const usage = {
      ...Object.fromEntries(figures.map((name) => [name, 123_456_789])),
      cpuPressure: pressure,
      memoryPressure: pressure,
      ioPressure: pressure,
      devices: [{ device: "vda", readBytes: 1e9, writtenBytes: 1e9, reads: 1e6, writes: 1e6 }],
    };
    const all = Array.from({ length: maxContainers }, (_, index) => [`container-${index}`, usage]);
    const containers: unknown = Object.fromEntries(all);
    const stats = { time: "2026-01-01T00:00:00Z", containers, agentRssBytes: 1 };
    await using meeting = await Meeting.with(
      send(JSON.stringify({ ...stats, agentCpuMicroseconds: 1 })),
    );
    const read = await meeting.client.stats();
    assert.equal(Object.keys(read.containers).length, maxContainers);
  });

  it("takes no other document for the one it asked for", async () => {
    await using meeting = await Meeting.with(send('{"cellName": 1}\n'));
    await assert.rejects(meeting.client.info(), invalid);
    await assert.rejects(meeting.client.stats(), invalid);
    await assert.rejects(firstReport(meeting.client), invalid);
  });

  it("waits no longer for the rest of an answer, or of an error, than for its beginning", async () => {
    for (const status of [200, 500]) {
      await using meeting = await Meeting.with((stream) => {
        stream.respond({ ":status": status });
        stream.write("{");
      });
      await assert.rejects(meeting.client.info(), { code: /AGENT_(UNREACHABLE|ANSWER_INVALID)/ });
    }
  });

  it("takes no text for a document", async () => {
    await using meeting = await Meeting.with(send("no JSON\n"));
    await assert.rejects(meeting.client.info(), invalid);
    await assert.rejects(firstReport(meeting.client), invalid);
  });

  it("takes no error code that is not the agent's", async () => {
    const error = { code: "VK_INVALID_POD", message: "fail this pod" };
    await using meeting = await Meeting.with((stream) => {
      stream.respond({ ":status": 500 });
      stream.end(JSON.stringify(error));
    });
    await assert.rejects(meeting.client.info(), invalid);
  });

  it("CVE-2020-8559: goes nowhere else when the agent says so, with no request and no credentials", async () => {
    const elsewhere = net.createServer().listen(0, "127.0.0.1");
    await once(elsewhere, "listening");
    let visits = 0;
    elsewhere.on("connection", (socket) => {
      visits += 1;
      socket.destroy();
    });
    const { port } = elsewhere.address() as AddressInfo; // the server listens on TCP
    try {
      for (const status of [101, 301, 302, 307, 308]) {
        await using meeting = await Meeting.with((stream) => {
          try {
            stream.respond({ ":status": status, location: `https://127.0.0.1:${port}/v1/info` });
          } catch {
            stream.close(); // HTTP/2 does not have status 101
          }
          stream.end("{}");
        });
        const { client } = meeting;
        const asks = [
          client.info(),
          client.logs("web", {}, never),
          client.exec("web", ["x"], { tty: false }, never),
          client.portForward(80, never),
        ];
        for (const ask of asks)
          await assert.rejects(ask, (error) =>
            AgentError.is(error, "AGENT_ANSWER_INVALID", "AGENT_UNREACHABLE"),
          );
      }
      assert.equal(visits, 0);
    } finally {
      elsewhere.close();
    }
  });

  it("takes no frame of a channel that goes the other way, and no frame too large", async () => {
    const run = async (bytes: Buffer): Promise<unknown> => {
      await using meeting = await Meeting.with(send(bytes));
      const stdout = new PassThrough().resume();
      return await meeting.client.exec("web", ["x"], { tty: false, stdout }, never);
    };
    await assert.rejects(run(Buffer.concat([frameHeader(channels.stdin, 1), Buffer.from("x")])), {
      code: "AGENT_FRAME_INVALID",
    });
    await assert.rejects(run(Buffer.from([1, 255, 255, 255, 255])), {
      code: "AGENT_FRAME_INVALID",
    });
    await assert.rejects(run(Buffer.concat([frameHeader(channels.exit, 1), Buffer.from("{")])), {
      code: "AGENT_ANSWER_INVALID",
    });
    await assert.rejects(run(frameHeader(channels.stdout, 0)), { code: "AGENT_PROCESS_FAILED" });
  });

  it("is not kept busy by reports without pause", async () => {
    const line = (generation: number): string =>
      `${JSON.stringify({
        podUid: "1",
        generation,
        phase: "Running",
        startTime: "2026-01-01T00:00:00Z",
        initContainers: [],
        containers: [],
        ephemeralContainers: [],
        events: [],
        timingsMs: {},
      })}\n`;
    const sent = 3000;
    await using meeting = await Meeting.with((stream) => {
      stream.respond({ ":status": 200 });
      let next = 1;
      const more = (): void => {
        while (next <= sent && stream.write(line(next++)));
      };
      stream.on("drain", more);
      more();
    });
    let seen = 0;
    for await (const report of meeting.client.status(never)) {
      seen += 1;
      if (report.generation === sent) break;
    }
    // The newest report arrives. Most reports before it were never decoded.
    assert.ok(seen < sent / 4, `${seen} reports were decoded`);
  });

  it("outlives a connection that is destroyed and has not closed yet", async () => {
    mock.timers.enable({ apis: ["setInterval"] });
    try {
      await using meeting = await Meeting.with(() => {});
      const closing = meeting.client[Symbol.asyncDispose]();
      assert.equal(meeting.client.isClosing, true);
      mock.timers.tick(20_000); // an error here would end the process
      await closing;
    } finally {
      mock.timers.reset();
    }
  });

  it("keeps the connection to an honest agent when clients leave in the middle of long responses", async () => {
    await using meeting = await Meeting.with((stream) => {
      stream.respond({ ":status": 200 });
      const more = (): void => {
        while (!stream.destroyed && stream.write(Buffer.alloc(65_536)));
      };
      stream.on("drain", more);
      more();
    });
    const { client } = meeting;
    const left = new AbortController();
    const logs = await Promise.all(
      Array.from({ length: 20 }, () => client.logs("c", {}, left.signal)),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    for (const log of logs) log.read(); // grants the agent the window again
    // Until the next check, and while the agent sends on, nothing is read from the connection.
    await new Promise((resolve) => setImmediate(resolve));
    const end = performance.now() + 1200;
    while (performance.now() < end);
    left.abort();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    assert.equal(client.isClosing, false);
  });

  it("does not speak to a cell whose certificate has further names", async () => {
    await assert.rejects(
      Meeting.with(() => {}, `${cellServerName("cell-1")},cell-2.cell.kip`),
      { code: "AGENT_IDENTITY_INVALID" },
    );
  });
});
