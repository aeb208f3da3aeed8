import { httpModule, portOf } from "@kip/base";
import { VirtualKubeletError } from "../errors.ts";

const maxConnections = 100;
const headersTimeoutMs = 10_000;

/** One page of a server. */
export interface Page {
  /** @default 200 */
  readonly status?: number | undefined;
  readonly type: string;
  readonly body: string;
}

/** A server of a few pages; disposing it ends it. */
export interface PlainServer extends AsyncDisposable {
  readonly port: number;
}

/** Options of {@link servePages}. */
export interface PagesOptions {
  readonly host?: string | undefined;
  readonly port: number;
  /** By their path. */
  readonly pages: Readonly<Record<string, () => Page>>;
  /** What is served, and the flag of its address, for the error. */
  readonly what: string;
  readonly flag: string;
}

/**
 * Serves pages to `GET` without TLS and without authentication.
 *
 * @throws {VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function servePages(options: PagesOptions): Promise<PlainServer> {
  const { host, port, pages, what, flag } = options;
  // Requests are not authenticated, so they get no more than a few of the process's file descriptors.
  const server = httpModule().createServer({ maxHeaderSize: 8192 }, (request, response) => {
    const name = request.url?.split("?")[0] ?? "";
    const page = Object.hasOwn(pages, name) ? pages[name]?.() : undefined;
    if (request.method !== "GET" || !page) {
      response.writeHead(404).end("404 request not found\n");
      return;
    }
    response.writeHead(page.status ?? 200, { "Content-Type": page.type }).end(page.body);
  });
  server.maxConnections = maxConnections;
  server.headersTimeout = headersTimeoutMs;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(
        new VirtualKubeletError("VK_LISTEN_FAILED", `Cannot serve ${what} on port ${port}`, {
          cause,
          remedy: `Choose another address with --${flag}`,
        }),
      ),
    );
    server.listen({ host, port }, resolve);
  });
  return {
    port: portOf(server),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
