import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { createLogger, OptionError, parseOptions, silentLogger, systemClock } from "@kip/base";
import { commandOptions } from "../command-options.ts";
import { availableExporters, createExporter, type ExporterSetup } from "./exporters.ts";
import { jaegerTarget, ocagentTarget } from "./older-targets.ts";
import { podTrace } from "../../tracing.ts";
import { openTracer } from "./open-tracer.ts";
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

describe("createTracer()", () => {
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

  it("belong to the trace of their pod, were when they are said to have been, and are taken together", () => {
    const uid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    const spans: OtlpSpan[] = [];
    const onEnd = (span: OtlpSpan): void => void spans.push(span);
    for (const sampleShare of [0.24, 0.25]) {
      // The first bits of the UID are 0x3f25 / 0x10000 = 0.2467.
      const tracer = createTracer({ clock: systemClock, onEnd, sampleShare });
      tracer.start("a", {}, { ...podTrace(uid), startedAt: 1000 }).end(undefined, 3000);
      tracer.start("b", {}, podTrace(uid)).end();
    }
    assert.deepEqual(
      spans.map(({ name, traceId }) => ({ name, traceId })),
      ["a", "b"].map((name) => ({ name, traceId: "3f2504e04f8941d39a0c0305e82c3301" })),
    );
    assert.equal(spans[0]?.startTimeUnixNano, "1000000000");
    assert.equal(spans[0]?.endTimeUnixNano, "3000000000");
    assert.deepEqual(podTrace("00000000-0000-0000-0000-000000000000"), {});
    assert.deepEqual(podTrace("static"), {});
  });

  it("go to an exporter chosen by name (O1)", () => {
    assert.deepEqual(availableExporters(), ["jaeger", "log", "ocagent", "otlp", "zpages"]);
    assert.throws(
      () => createExporter("zipkin", setup),
      (error) => OptionError.is(error, "OPTION_INVALID"),
    );
  });

  it("take the original's variables: Jaeger, OpenCensus", () => {
    const jaeger = { JAEGER_AGENT_ENDPOINT: "agent:6831" };
    assert.deepEqual(jaegerTarget(jaeger), { base: "http://agent:4318", headers: {} });
    const collector = {
      ...jaeger,
      JAEGER_COLLECTOR_ENDPOINT: "https://[2001:db8::1]:14268/api/traces",
      JAEGER_USER: "a",
      JAEGER_PASSWORD: "b",
    };
    assert.deepEqual(jaegerTarget(collector), {
      base: "https://[2001:db8::1]:4318",
      headers: { Authorization: "Basic YTpi" },
    });
    const agent = { OCAGENT_ENDPOINT: "oc:55678" };
    assert.equal(ocagentTarget(agent).base, "https://oc:4318");
    assert.equal(ocagentTarget({ ...agent, OCAGENT_INSECURE: "yes" }).base, "http://oc:4318");
    for (const name of ["jaeger", "ocagent"])
      assert.throws(
        () => createExporter(name, setup),
        (error) => OptionError.is(error, "OPTION_MISSING"),
      );
    const env = { JAEGER_COLLECTOR_ENDPOINT: "collector" };
    assert.throws(
      () => createExporter("jaeger", { ...setup, env }),
      (error) => OptionError.is(error, "OPTION_INVALID"),
    );
  });

  it("point to OTLP where the original had a page (zpages)", async () => {
    const lines: string[] = [];
    const logger = createLogger({ write: (line) => lines.push(line) });
    const exporter = createExporter("zpages", { ...setup, logger });
    const tracer = createTracer({ clock: systemClock, onEnd: (span) => exporter.export(span) });
    tracer.start("apply").end();
    await exporter[Symbol.asyncDispose]();
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /--trace-exporter=otlp/);
  });

  it("are several by one flag with commas, too", async () => {
    const words = { certificate: "", clientCa: "", nodeIp: "", systems: "" };
    const table = commandOptions({ ...words, logFormat: "json", metrics: "off" });
    const options = parseOptions(table, ["--trace-exporter=log,zpages"], {});
    const lines: string[] = [];
    const logger = createLogger({ write: (line) => lines.push(line) });
    await using tracer = openTracer(options, {}, { logger, provider: "kip" });
    tracer.start("apply").end();
    assert.deepEqual(
      lines.map((line) => /"msg":"([^"]*)"/.exec(line)?.[1]),
      ["Ignored the exporter zpages: there is no page of traces", "A span ended"],
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
