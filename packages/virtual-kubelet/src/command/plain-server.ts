import { httpModule, portOf } from "@kip/base";
import { VirtualKubeletError } from "../errors.ts";

const maxConnections = 100;
const headersTimeoutMs = 10_000;

/** A page of a server. */
export interface Page {
  /** @default 200 */
  readonly status?: number | undefined;
  readonly type: string;
  readonly body: string;
}

/** A server with a few pages. Disposing it closes it. */
export interface PlainServer extends AsyncDisposable {
  readonly port: number;
}

/** Options of {@link servePages}. */
export interface PagesOptions {
  readonly host?: string | undefined;
  readonly port: number;
  /** Pages by path. */
  readonly pages: Readonly<Record<string, () => Page>>;
  /** What is served, for the error message; and the flag with its address. */
  readonly what: string;
  readonly flag: string;
}

/**
 * Serves pages for `GET` without TLS and authentication.
 *
 * @throws {VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function servePages(options: PagesOptions): Promise<PlainServer> {
  const { host, port, pages, what, flag } = options;
  // Clients are not authenticated, so they get only a few of the process's file descriptors.
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
