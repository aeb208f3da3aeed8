import { servePages, type PlainServer } from "./plain-server.ts";

/** The health of a process. */
export interface ProcessHealth {
  /** Whether the process is working or is a ready standby, and what it is doing, in a few words. */
  readonly isReady: boolean;
  readonly doing: string;
}

/**
 * Serves `GET /livez` and `GET /healthz`, which answer as long as the process does, and `GET /readyz`, which answers 503 while
 * it starts. Uses neither TLS nor authentication.
 *
 * @throws {VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function serveHealth(
  where: { readonly host?: string | undefined; readonly port: number },
  health: () => ProcessHealth,
): Promise<PlainServer> {
  const type = "text/plain; charset=utf-8";
  const live = () => ({ type, body: "ok\n" });
  const ready = () => {
    const { isReady, doing } = health();
    return { type, status: isReady ? 200 : 503, body: `${doing}\n` };
  };
  const pages = { "/livez": live, "/healthz": live, "/readyz": ready };
  return await servePages({ ...where, pages, what: "health", flag: "health-addr" });
}
