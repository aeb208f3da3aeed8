import { OptionError, systemClock, type Logger, type OptionValues } from "@kip/base";
import { noTracer, type Tracer } from "../../tracing.ts";
import { createExporter } from "./exporters.ts";
import { createTracer } from "./otlp-tracer.ts";

/** Tags set by the program itself. */
const reservedTags = ["operatingSystem", "provider", "nodeName"];

/** Creates the tracer according to the options. Disposing it sends the remaining spans. */
export function openTracer(
  options: OptionValues,
  env: Readonly<Record<string, string | undefined>>,
  { logger, provider }: { readonly logger: Logger; readonly provider: string },
): Tracer & AsyncDisposable {
  // Virtual Kubelet takes several with commas, too.
  const names = options.list("trace-exporter").flatMap((text) => text.split(","));
  const sampleShare = share(options.required("trace-sample-rate"));
  const given = options.list("trace-tag").map(tag);
  if (names.length === 0) return { ...noTracer, [Symbol.asyncDispose]: async () => {} };
  const exporters = names.map((name) =>
    createExporter(name, {
      serviceName: options.required("trace-service-name"),
      tags: {
        ...Object.fromEntries(given),
        operatingSystem: options.required("os"),
        provider,
        nodeName: options.required("nodename"),
      },
      env,
      clock: systemClock,
      logger,
    }),
  );
  const tracer = createTracer({
    clock: systemClock,
    sampleShare,
    onEnd: (span) => {
      for (const exporter of exporters) exporter.export(span);
    },
  });
  return {
    ...tracer,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(exporters.map((exporter) => exporter[Symbol.asyncDispose]()));
    },
  };
}

function share(text: string): number {
  if (text === "always") return 1;
  if (text === "never") return 0;
  const percent = Number(text);
  if (text.trim() !== "" && percent >= 0 && percent <= 100) return percent / 100;
  throw wrong("trace-sample-rate", text, "always, never, or 0 to 100 is expected");
}

function tag(text: string): readonly [string, string] {
  const [, key = "", value = ""] = /^([^=]+)=(.*)$/.exec(text) ?? [];
  if (key === "") throw wrong("trace-tag", text, "key=value is expected");
  if (reservedTags.includes(key)) throw wrong("trace-tag", text, `${key} is set by the program`);
  return [key, value];
}

function wrong(flag: string, text: string, expected: string): OptionError {
  return new OptionError("OPTION_INVALID", `Cannot use --${flag} ${text}: ${expected}`);
}
