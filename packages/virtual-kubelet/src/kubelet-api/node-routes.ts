import type { ServerResponse } from "node:http";
import type { Pod } from "@kip/k8s-types";
import { answer, HttpRefusal } from "./answer.ts";
import type { KubeletHandlers } from "./options.ts";
import type { NodeRoute } from "./routes.ts";

/** Answers what is asked of the node as a whole. @throws HttpRefusal 501 if the provider has no part for it */
export async function answerNodeRoute(
  route: NodeRoute,
  response: ServerResponse,
  handlers: KubeletHandlers,
): Promise<void> {
  switch (route.kind) {
    case "health":
      return answer(response, "text/plain; charset=utf-8", "ok");
    case "pods":
      return answer(response, "application/json", podList(await handlers.pods()));
    case "runningPods":
      return answer(response, "application/json", podList(await handlers.runningPods()));
    case "statsSummary": {
      if (!handlers.statsSummary) throw notImplemented();
      return answer(response, "application/json", JSON.stringify(await handlers.statsSummary()));
    }
    case "resourceMetrics": {
      if (!handlers.resourceMetrics) throw notImplemented();
      return answer(response, "text/plain; version=0.0.4", await handlers.resourceMetrics());
    }
    default:
      throw notImplemented();
  }
}

function notImplemented(): HttpRefusal {
  return new HttpRefusal(501, "501 not implemented");
}

function podList(pods: readonly Pod[]): string {
  return JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: {}, items: pods });
}
