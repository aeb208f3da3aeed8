import { OptionError } from "@kip/base";

/** The collector named by an older exporter's variables, for use with OTLP. */
export interface OlderTarget {
  /** The collector's URL, without a path. */
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Collectors of Jaeger (since 1.35) and OpenTelemetry accept OTLP over HTTP on this port. */
const otlpPort = 4318;

/**
 * Jaeger's collector, or, if only its agent is named, the agent's machine.
 *
 * @throws {OptionError} `OPTION_MISSING`, `OPTION_INVALID`
 */
export function jaegerTarget(env: Readonly<Record<string, string | undefined>>): OlderTarget {
  const collector = env["JAEGER_COLLECTOR_ENDPOINT"] ?? "";
  const agent = env["JAEGER_AGENT_ENDPOINT"] ?? "";
  const { JAEGER_USER: user = "", JAEGER_PASSWORD: password = "" } = env;
  if (collector === "" && agent === "")
    throw missing("JAEGER_COLLECTOR_ENDPOINT or JAEGER_AGENT_ENDPOINT");
  const login = Buffer.from(`${user}:${password}`).toString("base64");
  return {
    base:
      collector === ""
        ? atHost("JAEGER_AGENT_ENDPOINT", `http://${agent}`)
        : atHost("JAEGER_COLLECTOR_ENDPOINT", collector),
    headers: user === "" ? {} : { Authorization: `Basic ${login}` },
  };
}

/**
 * The OpenCensus agent. Uses TLS unless OCAGENT_INSECURE is `1`, `yes`, `y` or `on`. @throws {OptionError} `OPTION_MISSING`,
 * `OPTION_INVALID`
 */
export function ocagentTarget(env: Readonly<Record<string, string | undefined>>): OlderTarget {
  const endpoint = env["OCAGENT_ENDPOINT"] ?? "";
  if (endpoint === "") throw missing("OCAGENT_ENDPOINT");
  const isInsecure = /^(1|yes|y|on)$/i.test(env["OCAGENT_INSECURE"] ?? "");
  const scheme = isInsecure ? "http" : "https";
  return { base: atHost("OCAGENT_ENDPOINT", `${scheme}://${endpoint}`), headers: {} };
}

function atHost(name: string, text: string): string {
  const url = URL.parse(text);
  if (url?.hostname && /^https?:$/.test(url.protocol))
    return `${url.protocol}//${url.hostname}:${otlpPort}`;
  throw new OptionError("OPTION_INVALID", `Cannot use ${name} ${text}: it names no host`);
}

function missing(name: string): OptionError {
  return new OptionError("OPTION_MISSING", `Cannot send traces: ${name} is not set`, {
    remedy: "Set it, or use --trace-exporter=otlp with OTEL_EXPORTER_OTLP_ENDPOINT",
  });
}
