import { httpModule, portOf } from "@kip/base";
import { VirtualKubeletError } from "../errors.ts";

const maxConnections = 100;
const headersTimeoutMs = 10_000;

/** A server for metrics only; disposing it ends it. */
export interface MetricsServer extends AsyncDisposable {
  readonly port: number;
}

/**
 * Serves `GET /metrics` without TLS and without authentication, as the original's flag promised.
 *
 * @throws {VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function serveMetrics(
  where: { readonly host?: string | undefined; readonly port: number },
  text: () => string,
): Promise<MetricsServer> {
  // Strangers may ask: they get no more than a few of the process's file descriptors.
  const server = httpModule().createServer({ maxHeaderSize: 8192 }, (request, response) => {
    if (request.method !== "GET" || request.url?.split("?")[0] !== "/metrics") {
      response.writeHead(404).end("404 request not found\n");
      return;
    }
    response.setHeader("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    response.end(text());
  });
  server.maxConnections = maxConnections;
  server.headersTimeout = headersTimeoutMs;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(
        new VirtualKubeletError("VK_LISTEN_FAILED", `Cannot serve metrics on port ${where.port}`, {
          cause,
          remedy: "Choose another address with --metrics-addr",
        }),
      ),
    );
    server.listen(where, resolve);
  });
  const port = portOf(server);
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
