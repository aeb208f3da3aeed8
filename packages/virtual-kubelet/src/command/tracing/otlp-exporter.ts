import { pause, withTimeout, OptionError } from "@kip/base";
import type { ExporterSetup, SpanExporter } from "./exporters.ts";
import type { OlderTarget } from "./older-targets.ts";
import { attributesOf, type OtlpAttribute, type OtlpSpan } from "./otlp-tracer.ts";

const flushMs = 2000;
const requestLimitMs = 10_000;
/** Time limit for sending the remaining spans at the end, milliseconds. */
const shutdownMs = 5000;
/** Longest pause that a collector can request, milliseconds. */
const longestPauseMs = 10 * 60_000;
const maxBatch = 512;
const maxWaiting = 4096;

/**
 * Exports OTLP over HTTP with JSON. Sends spans every two seconds. At most 4,096 spans wait, and a batch that the collector
 * refuses is dropped, because traces are not worth the memory. A `Retry-After` delays the next batch.
 *
 * @see https://opentelemetry.io/docs/specs/otlp/#otlphttp
 */
export class OtlpExporter implements SpanExporter {
  readonly #setup: ExporterSetup;
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #attributes: readonly OtlpAttribute[];
  readonly #waiting: OtlpSpan[] = [];
  /** Ends the pauses between batches. */
  readonly #stop = new AbortController();
  /** Also ends the requests. */
  readonly #giveUp = new AbortController();
  #sender: Promise<void> | undefined;
  /** On the monotonic clock. */
  #pausedUntil = 0;

  /** @throws {OptionError} `OPTION_INVALID` if a variable is not a valid URL or list of headers */
  constructor(setup: ExporterSetup, older?: OlderTarget) {
    const { serviceName, tags, env, logger } = setup;
    this.#setup = setup;
    this.#url = tracesUrl(env, older);
    this.#headers = {
      "Content-Type": "application/json",
      ...older?.headers,
      ...headersOf("OTEL_EXPORTER_OTLP_HEADERS", env),
      ...headersOf("OTEL_EXPORTER_OTLP_TRACES_HEADERS", env),
    };
    this.#attributes = attributesOf(Object.entries({ ...tags, "service.name": serviceName }));
    if (older)
      logger.warn("Chose OTLP for traces: name the collector's OTLP port if it is another", {
        url: this.#url,
        instead: "--trace-exporter=otlp with OTEL_EXPORTER_OTLP_ENDPOINT",
      });
  }

  export(span: OtlpSpan): void {
    if (this.#waiting.length >= maxWaiting) return;
    this.#waiting.push(span);
    this.#sender ??= this.#send().finally(() => {
      this.#sender = undefined;
    });
  }

  /** Sends the waiting spans, for at most five seconds. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    const { clock, logger } = this.#setup;
    const sent = this.#sender ?? Promise.resolve();
    await withTimeout(async () => await sent, { limitMs: shutdownMs, clock }).catch(() => {
      logger.warn("Could not send all spans before the end", { waiting: this.#waiting.length });
    });
    this.#giveUp.abort(new Error("The exporter was closed"));
  }

  async #send(): Promise<void> {
    const { clock, logger } = this.#setup;
    await pause(flushMs, clock, this.#stop.signal);
    while (this.#waiting.length > 0 && !this.#giveUp.signal.aborted) {
      await pause(Math.max(0, this.#pausedUntil - clock.monotonic()), clock, this.#stop.signal);
      const spans = this.#waiting.splice(0, maxBatch);
      try {
        await withTimeout(async (signal) => await this.#post(spans, signal), {
          limitMs: requestLimitMs,
          clock,
          signal: this.#giveUp.signal,
        });
      } catch (err) {
        logger.warn("Could not send spans", { count: spans.length, err });
      }
    }
  }

  async #post(spans: readonly OtlpSpan[], signal: AbortSignal): Promise<void> {
    const resource = { attributes: this.#attributes };
    const scopeSpans = [{ scope: { name: "virtual-kubelet" }, spans }];
    const answer = await fetch(this.#url, {
      method: "POST",
      headers: this.#headers,
      body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans }] }),
      signal,
      redirect: "error",
    });
    await drain(answer);
    if (answer.ok) return;
    const seconds = Number(answer.headers.get("retry-after") ?? Number.NaN);
    if (seconds > 0)
      this.#pausedUntil = this.#setup.clock.monotonic() + Math.min(seconds * 1000, longestPauseMs);
    throw new Error(`HTTP ${answer.status}`);
  }
}

/** Reads a response to its end without keeping it. Otherwise its connection could not be reused. */
async function drain(answer: Response): Promise<void> {
  for await (const _ of answer.body ?? []);
}

function tracesUrl(env: ExporterSetup["env"], older: OlderTarget | undefined): string {
  const whole = given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", env);
  if (whole !== undefined) return whole;
  const base = given("OTEL_EXPORTER_OTLP_ENDPOINT", env) ?? older?.base ?? "http://localhost:4318";
  return `${base.replace(/\/$/, "")}/v1/traces`;
}

/** The URL in a variable. An empty variable counts as missing. */
function given(name: string, env: ExporterSetup["env"]): string | undefined {
  const text = env[name] ?? "";
  if (text === "") return undefined;
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use ${name} ${text}: an http or https URL is expected`,
  );
}

/** Parses headers `name=value,name=value`, which are percent-encoded. */
function headersOf(name: string, env: ExporterSetup["env"]): Readonly<Record<string, string>> {
  const pairs = (env[name] ?? "").split(",").filter((pair) => pair.trim() !== "");
  try {
    const headers = new Headers(
      pairs.map((pair): [string, string] => {
        const equals = pair.indexOf("=");
        return [
          pair.slice(0, Math.max(0, equals)).trim(),
          decodeURIComponent(pair.slice(equals + 1).trim()),
        ];
      }),
    );
    return Object.fromEntries(headers);
  } catch {
    // The text is not shown, because it may be a secret.
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot use ${name}: name=value,name=value is expected`,
    );
  }
}
