import { OptionError, type Clock, type Logger } from "@kip/base";
import { jaegerTarget, ocagentTarget } from "./older-targets.ts";
import { OtlpExporter } from "./otlp-exporter.ts";
import type { OtlpSpan } from "./otlp-tracer.ts";

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
  /** Environment variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, those for traces, and the original's. */
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

/** Names that `--trace-exporter` takes. */
export function availableExporters(): readonly string[] {
  return Object.keys(exporters).sort();
}

/** Makes an exporter. @throws {OptionError} `OPTION_INVALID` */
export function createExporter(name: string, setup: ExporterSetup): SpanExporter {
  const create = Object.hasOwn(exporters, name) ? exporters[name] : undefined;
  if (create) return create(setup);
  throw new OptionError("OPTION_INVALID", `Cannot use --trace-exporter ${name}: there is none`, {
    remedy: `Use one of ${availableExporters().join(", ")}`,
  });
}
