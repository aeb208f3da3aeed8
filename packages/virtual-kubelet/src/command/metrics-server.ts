import { servePages, type PlainServer } from "./plain-server.ts";

/**
 * Serves `GET /metrics` without TLS and authentication, as documented for the original's flag.
 *
 * @throws {VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function serveMetrics(
  where: { readonly host?: string | undefined; readonly port: number },
  text: () => string,
): Promise<PlainServer> {
  const type = "text/plain; version=0.0.4; charset=utf-8";
  const pages = { "/metrics": () => ({ type, body: text() }) };
  return await servePages({ ...where, pages, what: "metrics", flag: "metrics-addr" });
}
