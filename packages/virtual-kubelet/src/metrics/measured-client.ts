import { K8sError, type ApiClient } from "@kip/k8s-client";
import type { NodeMetrics } from "./node-metrics.ts";

/** A client whose requests are counted. */
export function measuredClient(client: ApiClient, metrics: NodeMetrics): ApiClient {
  const measure = async <T>(method: string, call: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    let code = "200";
    try {
      return await call();
    } catch (error) {
      const status = K8sError.is(error) ? error.httpStatus : undefined;
      code = status === undefined ? "error" : String(status);
      throw error;
    } finally {
      metrics.apiRequest(method, code, performance.now() - startedAt);
    }
  };
  return {
    server: client.server,
    get: (path, options) => measure("GET", () => client.get(path, options)),
    list: (path, options) => measure("LIST", () => client.list(path, options)),
    create: (path, body, options) => measure("POST", () => client.create(path, body, options)),
    replace: (path, body, options) => measure("PUT", () => client.replace(path, body, options)),
    patch: (path, body, type, options) =>
      measure("PATCH", () => client.patch(path, body, type, options)),
    delete: (path, options) => measure("DELETE", () => client.delete(path, options)),
    stream: (path, options) => measure("WATCH", () => client.stream(path, options)),
    request: (method, path, options) =>
      measure(method, () => client.request(method, path, options)),
    close: () => client.close(),
  };
}
