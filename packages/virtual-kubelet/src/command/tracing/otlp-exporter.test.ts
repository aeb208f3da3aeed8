import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { createExporter, type SpanExporter } from "./exporters.ts";
import { createTracer } from "./otlp-tracer.ts";

describe("OtlpExporter", () => {
  let collector: http.Server;
  let requests: http.IncomingHttpHeaders[];
  let connections: number;
  let answer: (response: http.ServerResponse) => void;
  let clock: ManualClock;

  before(async () => {
    collector = http.createServer((request, response) => {
      request.resume().on("end", () => {
        requests.push(request.headers);
        answer(response);
        collector.emit("answered");
      });
    });
    collector.on("connection", () => connections++);
    collector.listen(0, "127.0.0.1");
    await once(collector, "listening");
  });

  after(() => {
    collector.closeAllConnections();
    collector.close();
  });

  beforeEach(() => {
    requests = [];
    connections = 0;
    clock = new ManualClock();
    answer = (response) => void response.end("{}");
  });

  function open(more: Readonly<Record<string, string>> = {}): SpanExporter {
    const { port } = collector.address() as AddressInfo; // a TCP server that listens
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, ...more };
    return createExporter("otlp", {
      serviceName: "vk",
      tags: {},
      env,
      clock,
      logger: silentLogger,
    });
  }

  function exportSpans(exporter: SpanExporter, count = 1): void {
    const tracer = createTracer({ clock, onEnd: (span) => exporter.export(span) });
    for (let span = 0; span < count; span++) tracer.start("apply").end();
  }

  /** Lets the exporter send its spans, and waits until it got a response and is idle. */
  async function send(exporter: SpanExporter): Promise<void> {
    exportSpans(exporter);
    const answered = once(collector, "answered");
    await clock.advance(2000);
    await answered;
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  }

  it("uses one connection, whatever the collector answers", async () => {
    answer = (response) => void response.end("x".repeat(300_000));
    const exporter = open();
    for (let batch = 0; batch < 5; batch++) await send(exporter);
    assert.equal(requests.length, 5);
    assert.ok(connections <= 2, `${connections} connections`);
    await exporter[Symbol.asyncDispose]();
  });

  it("sends the headers of OTEL_EXPORTER_OTLP_HEADERS", async () => {
    const exporter = open({ OTEL_EXPORTER_OTLP_HEADERS: "api-key=a%20b, x-tenant = 7" });
    await send(exporter);
    assert.equal(requests[0]?.["api-key"], "a b");
    assert.equal(requests[0]?.["x-tenant"], "7");
    await exporter[Symbol.asyncDispose]();
  });

  it("waits as long as the collector asks", async () => {
    answer = (response) => void response.writeHead(503, { "Retry-After": "30" }).end();
    const exporter = open();
    await send(exporter);
    answer = (response) => void response.end("{}");
    exportSpans(exporter);
    await clock.advance(10_000);
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
    assert.equal(requests.length, 1);
    const answered = once(collector, "answered");
    await clock.advance(30_000);
    await answered;
    assert.equal(requests.length, 2);
    await exporter[Symbol.asyncDispose]();
  });

  it("gives up at the end when the collector does not answer", async () => {
    answer = () => {};
    const exporter = open();
    exportSpans(exporter, 4096);
    const received = once(collector, "answered");
    const disposed = exporter[Symbol.asyncDispose]();
    await received;
    await clock.advance(5000);
    await disposed;
    assert.equal(requests.length, 1);
  });

  it("takes an empty variable for none, and refuses what is not a URL", () => {
    const make = (env: Readonly<Record<string, string>>): SpanExporter =>
      createExporter("otlp", { serviceName: "vk", tags: {}, env, clock, logger: silentLogger });
    make({ OTEL_EXPORTER_OTLP_ENDPOINT: "", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "" });
    for (const name of ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
      for (const url of ["collector:4318", "/v1/traces"])
        assert.throws(() => make({ [name]: url }), { code: "OPTION_INVALID" }, `${name} ${url}`);
    assert.throws(() => make({ OTEL_EXPORTER_OTLP_HEADERS: "a" }), { code: "OPTION_INVALID" });
  });
});
