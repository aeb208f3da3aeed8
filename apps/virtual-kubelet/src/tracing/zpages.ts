import { httpModule, OptionError } from "@kip/base";
import type { ExporterSetup, SpanExporter } from "./exporters.ts";
import type { OtlpSpan } from "./otlp-tracer.ts";

interface Row {
  count: number;
  failed: number;
  totalMs: number;
  longestMs: number;
  lastError: string;
}

const maxRows = 1000;

/**
 * Spans by name as a page for people, at `/debug/tracez` on loopback: the original's `zpages` exporter.
 *
 * @throws {OptionError} `OPTION_MISSING` without ZPAGES_PORT, `OPTION_INVALID` if it is not a valid port
 */
export function zpagesExporter({ env, logger }: ExporterSetup): SpanExporter {
  const port = portOf(env["ZPAGES_PORT"]);
  const rows = new Map<string, Row>();
  const server = httpModule().createServer(
    { maxHeaderSize: 8192 },
    ({ method, url = "" }, response) => {
      const page = url.split("?")[0]?.replace(/\/$/, "");
      if (method !== "GET" || (page !== "/debug" && page !== "/debug/tracez")) {
        response.writeHead(404).end("404 request not found; spans are at /debug/tracez\n");
        return;
      }
      response.setHeader("Content-Type", "text/plain; charset=utf-8");
      response.end(table(rows));
    },
  );
  server.on("error", (error) => logger.warn("Could not show traces", { port, err: error }));
  server.listen(port, "127.0.0.1");
  return {
    export: (span) => add(rows, span),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      if (server.listening) await new Promise((resolve) => server.close(resolve));
    },
  };
}

function portOf(text = ""): number {
  if (text === "")
    throw new OptionError("OPTION_MISSING", "Cannot show traces: ZPAGES_PORT is not set");
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw new OptionError("OPTION_INVALID", `Cannot use ZPAGES_PORT ${text}: a port is expected`);
}

function add(rows: Map<string, Row>, span: OtlpSpan): void {
  const known = rows.get(span.name);
  if (!known && rows.size >= maxRows) return;
  const row = known ?? { count: 0, failed: 0, totalMs: 0, longestMs: 0, lastError: "" };
  const nanoseconds = BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano);
  const ms = Number(nanoseconds) / 1e6;
  row.count++;
  row.totalMs += ms;
  row.longestMs = Math.max(row.longestMs, ms);
  if (span.status.code === 2) {
    row.failed++;
    row.lastError = span.status.message ?? "";
  }
  rows.set(span.name, row);
}

function table(rows: ReadonlyMap<string, Row>): string {
  const lines = [...rows]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { count, failed, totalMs, longestMs, lastError }]) => {
      const times = `${(totalMs / count).toFixed(1)}\t${longestMs.toFixed(1)}`;
      return `${name}\t${count}\t${failed}\t${times}\t${lastError.replaceAll(/\s+/g, " ")}\n`;
    });
  return `span\tcount\tfailed\tmean ms\tlongest ms\tlast error\n${lines.join("")}`;
}
