import { errorText, KipError, type Clock, type Logger } from "@kip/base";
import { attributesOf, type OtlpSpan } from "./otlp-tracer.ts";

/** Takes spans that have ended and sends them on. */
export interface SpanExporter extends AsyncDisposable {
  export(span: OtlpSpan): void;
}

/** What an exporter is made with. */
export interface ExporterSetup {
  /** `service.name` of the spans. */
  readonly serviceName: string;
  /** Further attributes of the process. */
  readonly tags: Readonly<Record<string, string>>;
  /** Environment: `OTEL_EXPORTER_OTLP_ENDPOINT` and the like. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const exporters: Readonly<Record<string, (setup: ExporterSetup) => SpanExporter>> = {
  otlp: otlpExporter,
  log: ({ logger }) => ({
    export: (span) => logger.info("A span ended", { span: span.name, status: span.status }),
    [Symbol.asyncDispose]: async () => {},
  }),
};

/** Names that `--trace-exporter` takes. */
export function availableExporters(): readonly string[] {
  return Object.keys(exporters).sort();
}

/** Makes an exporter. @throws {KipError} `TRACE_EXPORTER_UNKNOWN` */
export function createExporter(name: string, setup: ExporterSetup): SpanExporter {
  const create = Object.hasOwn(exporters, name) ? exporters[name] : undefined;
  if (create) return create(setup);
  throw new KipError("TRACE_EXPORTER_UNKNOWN", `Cannot export traces with "${name}"`, {
    remedy: `Use one of ${availableExporters().join(", ")}; collectors of jaeger and ocagent speak otlp`,
  });
}

const flushMs = 2000;
const maxBatch = 512;
const maxWaiting = 4096;

/** OTLP over HTTP with JSON: https://opentelemetry.io/docs/specs/otlp/#otlphttp */
function otlpExporter({ serviceName, tags, env, clock, logger }: ExporterSetup): SpanExporter {
  const base = env["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "http://localhost:4318";
  const url = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ?? `${base.replace(/\/$/, "")}/v1/traces`;
  const attributes = attributesOf(Object.entries({ ...tags, "service.name": serviceName }));
  const waiting: OtlpSpan[] = [];
  const stop = new AbortController();
  let sender: Promise<void> | undefined;

  async function send(): Promise<void> {
    while (waiting.length > 0) {
      const spans = waiting.splice(0, maxBatch);
      const scopeSpans = [{ scope: { name: "virtual-kubelet" }, spans }];
      const body = JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans }] });
      try {
        const headers = { "Content-Type": "application/json" };
        const signal = AbortSignal.timeout(10_000);
        const answer = await fetch(url, {
          method: "POST",
          headers,
          body,
          signal,
          redirect: "error",
        });
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      } catch (error) {
        // Traces are not worth holding memory for a collector that is away.
        logger.warn("Could not send spans", { count: spans.length, cause: errorText(error) });
      }
    }
  }

  async function sendSoon(): Promise<void> {
    await clock.sleep(flushMs, stop.signal).catch(() => {}); // at the end, at once
    await send();
  }

  return {
    export: (span) => {
      if (waiting.length >= maxWaiting) return;
      waiting.push(span);
      sender ??= sendSoon().finally(() => {
        sender = undefined;
      });
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await sender;
    },
  };
}
