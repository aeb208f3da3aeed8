import { K8sError, wrapRequests, type ApiClient } from "@kip/k8s-client";
import type { NodeMetrics } from "./node-metrics.ts";

/** Wraps a client so that its requests are counted. */
export function measuredClient(client: ApiClient, metrics: NodeMetrics): ApiClient {
  return wrapRequests(client, async (verb, send) => {
    const startedAt = performance.now();
    let code = "200";
    try {
      return await send();
    } catch (error) {
      const status = K8sError.is(error) ? error.httpStatus : undefined;
      code = status === undefined ? "error" : String(status);
      throw error;
    } finally {
      metrics.apiRequest(verb, code, performance.now() - startedAt);
    }
  });
}
