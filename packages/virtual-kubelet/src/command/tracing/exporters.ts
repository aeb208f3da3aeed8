import { OptionError, type Clock, type Logger } from "@kip/base";
import { jaegerTarget, ocagentTarget } from "./older-targets.ts";
import { OtlpExporter } from "./otlp-exporter.ts";
import type { OtlpSpan } from "./otlp-tracer.ts";

/** Sends spans that have ended. */
export interface SpanExporter extends AsyncDisposable {
  export(span: OtlpSpan): void;
}

/** Options of an exporter. */
export interface ExporterSetup {
  /** The spans' `service.name`. */
  readonly serviceName: string;
  /** More attributes of the process. */
  readonly tags: Readonly<Record<string, string>>;
  /** Environment variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, their variants for traces, and the original's. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const withoutExport: SpanExporter = {
  export: () => {},
  [Symbol.asyncDispose]: async () => {},
};

const exporters: Readonly<Record<string, (setup: ExporterSetup) => SpanExporter>> = {
  otlp: (setup) => new OtlpExporter(setup),
  jaeger: (setup) => new OtlpExporter(setup, jaegerTarget(setup.env)),
  ocagent: (setup) => new OtlpExporter(setup, ocagentTarget(setup.env)),
  zpages: ({ logger }) => {
    const useInstead = "--trace-exporter=otlp, with a collector that shows traces";
    logger.warn("Ignored the exporter zpages: there is no page of traces", { useInstead });
    return withoutExport;
  },
  log: ({ logger }) => ({
    export: (span) => logger.info("A span ended", { span: span.name, status: span.status }),
    [Symbol.asyncDispose]: async () => {},
  }),
};

/** Valid names for `--trace-exporter`. */
export function availableExporters(): readonly string[] {
  return Object.keys(exporters).sort();
}

/** Creates an exporter. @throws {OptionError} `OPTION_INVALID` */
export function createExporter(name: string, setup: ExporterSetup): SpanExporter {
  const create = Object.hasOwn(exporters, name) ? exporters[name] : undefined;
  if (create) return create(setup);
  throw new OptionError("OPTION_INVALID", `Cannot use --trace-exporter ${name}: there is none`, {
    remedy: `Use one of ${availableExporters().join(", ")}`,
  });
}
