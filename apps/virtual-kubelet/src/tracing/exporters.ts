import { errorText, KipError, type Clock, type Logger } from "@kip/base";
import { jaegerTarget, ocagentTarget, type OlderTarget } from "./older-targets.ts";
import { attributesOf, type OtlpSpan } from "./otlp-tracer.ts";
import { zpagesExporter } from "./zpages.ts";

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
  /** Environment: `OTEL_EXPORTER_OTLP_ENDPOINT` and the like, and the original's variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const exporters: Readonly<Record<string, (setup: ExporterSetup) => SpanExporter>> = {
  otlp: otlpExporter,
  jaeger: (setup) => otlpExporter(setup, jaegerTarget(setup.env)),
  ocagent: (setup) => otlpExporter(setup, ocagentTarget(setup.env)),
  zpages: zpagesExporter,
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
    remedy: `Use one of ${availableExporters().join(", ")}`,
  });
}

const flushMs = 2000;
const maxBatch = 512;
const maxWaiting = 4096;

/** OTLP over HTTP with JSON: https://opentelemetry.io/docs/specs/otlp/#otlphttp */
function otlpExporter(
  { serviceName, tags, env, clock, logger }: ExporterSetup,
  older?: OlderTarget,
): SpanExporter {
  const base = env["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? older?.base ?? "http://localhost:4318";
  const url = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ?? `${base.replace(/\/$/, "")}/v1/traces`;
  if (older)
    logger.warn("Traces go out as OTLP: name the collector's OTLP port if it is another", {
      url,
      instead: "--trace-exporter=otlp with OTEL_EXPORTER_OTLP_ENDPOINT",
    });
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
        const headers = { "Content-Type": "application/json", ...older?.headers };
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
