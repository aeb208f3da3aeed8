import type { ApiClient } from "./api-client.ts";

/**
 * Wraps a client so that its requests go through `around`, which calls `send` to make the request. The verb is the HTTP method,
 * or LIST or WATCH.
 */
export function wrapRequests(
  client: ApiClient,
  around: <T>(verb: string, send: () => Promise<T>) => Promise<T>,
): ApiClient {
  return {
    server: client.server,
    get longestWaitMs() {
      return client.longestWaitMs;
    },
    get: (path, options) => around("GET", () => client.get(path, options)),
    list: (path, options) => around("LIST", () => client.list(path, options)),
    create: (path, body, options) => around("POST", () => client.create(path, body, options)),
    replace: (path, body, options) => around("PUT", () => client.replace(path, body, options)),
    patch: (path, body, type, options) =>
      around("PATCH", () => client.patch(path, body, type, options)),
    delete: (path, options) => around("DELETE", () => client.delete(path, options)),
    stream: (path, options) => around("WATCH", () => client.stream(path, options)),
    request: (method, path, options) => around(method, () => client.request(method, path, options)),
    close: () => client.close(),
  };
}
