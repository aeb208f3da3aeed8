import { K8sError } from "../errors.ts";
import type { ApiClient } from "../client/api-client.ts";
import type { LeaderTerm } from "./leader-lease.ts";

/**
 * A client that changes nothing once another process may lead: each request but those that read fails with
 * `K8S_LEASE_LOST` then. The check is made before each request, on a clock that continues while the process is suspended.
 */
export function fencedClient(client: ApiClient, term: Pick<LeaderTerm, "isHeld">): ApiClient {
  const pass = async <T>(method: string, call: () => Promise<T>): Promise<T> => {
    if (term.isHeld() || method === "GET") return await call();
    throw new K8sError("K8S_LEASE_LOST", `Cannot send ${method}: another process may lead now`);
  };
  return {
    server: client.server,
    get: (path, options) => client.get(path, options),
    list: (path, options) => client.list(path, options),
    create: (path, body, options) => pass("POST", () => client.create(path, body, options)),
    replace: (path, body, options) => pass("PUT", () => client.replace(path, body, options)),
    patch: (path, body, type, options) =>
      pass("PATCH", () => client.patch(path, body, type, options)),
    delete: (path, options) => pass("DELETE", () => client.delete(path, options)),
    stream: (path, options) => client.stream(path, options),
    request: (method, path, options) => pass(method, () => client.request(method, path, options)),
    close: () => client.close(),
  };
}
