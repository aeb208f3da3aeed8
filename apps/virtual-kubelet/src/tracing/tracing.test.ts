import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { hasCode, silentLogger, systemClock } from "@kip/base";
import { availableExporters, createExporter, type ExporterSetup } from "./exporters.ts";
import { createTracer, type OtlpSpan } from "./otlp-tracer.ts";

function traced(): {
  readonly spans: OtlpSpan[];
  readonly tracer: ReturnType<typeof createTracer>;
} {
  const spans: OtlpSpan[] = [];
  return { spans, tracer: createTracer({ clock: systemClock, onEnd: (span) => spans.push(span) }) };
}

const setup: ExporterSetup = {
  serviceName: "vk",
  tags: { zone: "a" },
  env: {},
  clock: systemClock,
  logger: silentLogger,
};

describe("traces", () => {
  it("carry fields, the last of each name, and events with their level (T1, T2)", () => {
    const { spans, tracer } = traced();
    const span = tracer.start("apply", { pod: "a/b", try: 1 });
    span.with({ try: 2, share: 0.5, first: true });
    span.log("warn", "it hangs", { seconds: 60 });
    span.end();
    assert.deepEqual(spans[0]?.attributes, [
      { key: "pod", value: { stringValue: "a/b" } },
      { key: "try", value: { intValue: "2" } },
      { key: "share", value: { doubleValue: 0.5 } },
      { key: "first", value: { boolValue: true } },
    ]);
    assert.deepEqual(spans[0].status, { code: 1 });
    const [event] = spans[0].events;
    assert.equal(event?.name, "it hangs");
    assert.deepEqual(event.attributes, [
      { key: "seconds", value: { intValue: "60" } },
      { key: "level", value: { stringValue: "warn" } },
    ]);
  });

  it("end once, with the error that ended the work (T2)", () => {
    const { spans, tracer } = traced();
    const span = tracer.start("apply");
    span.end(new Error("no", { cause: new Error("cloud away") }));
    span.end();
    span.log("info", "too late");
    assert.equal(spans.length, 1);
    assert.deepEqual(spans[0]?.status, { code: 2, message: "no: cloud away" });
    assert.equal(spans[0].events.length, 0);
  });

  it("go to an exporter chosen by name (O1)", () => {
    assert.deepEqual(availableExporters(), ["log", "otlp"]);
    assert.throws(
      () => createExporter("jaeger", setup),
      (error) => hasCode(error, "TRACE_EXPORTER_UNKNOWN"),
    );
  });

  it("reach a collector over OTLP/HTTP", async () => {
    const bodies: string[] = [];
    const server = http.createServer((request, response) => {
      request.setEncoding("utf8");
      request.on("data", (text: string) => bodies.push(`${request.url} ${text}`));
      request.on("end", () => response.end("{}"));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` };
    const exporter = createExporter("otlp", { ...setup, env });
    const tracer = createTracer({ clock: systemClock, onEnd: (span) => exporter.export(span) });
    tracer.start("apply", { pod: "a/b" }).end();
    await exporter[Symbol.asyncDispose]();
    server.close();
    server.closeAllConnections();
    assert.match(bodies.join(""), /^\/v1\/traces .*"service.name".*"name":"apply"/);
  });
});
