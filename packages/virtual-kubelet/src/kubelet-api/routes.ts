import type { KubeletAction } from "./access.ts";

/** A pod as a path names it. */
export interface PodPath {
  readonly namespace: string;
  readonly pod: string;
  readonly uid?: string;
}

/** What a request is about. */
export type Route = NodeRoute | LogRoute | StreamRoute;

/** The routes that open streams. */
export type StreamRoute =
  | ({ readonly kind: "exec" | "attach"; readonly container: string } & PodPath)
  | ({ readonly kind: "portForward" } & PodPath);

interface NodeRoute {
  readonly kind: "healthz" | "pods" | "runningPods" | "statsSummary" | "resourceMetrics";
}

type LogRoute = { readonly kind: "containerLogs"; readonly container: string } & PodPath;

const plainRoutes: ReadonlyMap<string, NodeRoute> = new Map([
  ["healthz", { kind: "healthz" }],
  ["pods", { kind: "pods" }],
  ["runningpods", { kind: "runningPods" }],
  ["stats/summary", { kind: "statsSummary" }],
  ["metrics/resource", { kind: "resourceMetrics" }],
]);

/** Finds the route of a path; a slash at its end makes no difference. Undefined if there is none. */
export function findRoute(path: string): Route | undefined {
  const plain = plainRoutes.get(path.replace(/^\/|\/$/g, ""));
  if (plain) return plain;
  const [first, ...segments] = path.replace(/\/$/, "").split("/").slice(1).map(decodeSegment);
  const names = segments.filter((segment) => segment !== undefined && segment !== "");
  if (names.length !== segments.length) return undefined;
  const [namespace = "", pod = "", third = "", fourth] = names;
  if (first === "portForward" && (names.length === 2 || names.length === 3)) {
    return { kind: first, namespace, pod, ...(third !== "" && { uid: third }) };
  }
  if (first === "containerLogs" && names.length === 3) {
    return { kind: first, namespace, pod, container: third };
  }
  if ((first === "exec" || first === "attach") && (names.length === 3 || names.length === 4)) {
    return fourth === undefined
      ? { kind: first, namespace, pod, container: third }
      : { kind: first, namespace, pod, uid: third, container: fourth };
  }
  return undefined;
}

/** The methods a route answers to. */
export function allowedMethods(route: Route): readonly string[] {
  return isStreamRoute(route) ? ["GET", "POST"] : ["GET"];
}

export function isStreamRoute(route: Route): route is StreamRoute {
  return route.kind === "exec" || route.kind === "attach" || route.kind === "portForward";
}

/** What a route means to an authoriser: the kubelet's table, fine-grained names first. */
export function routeAction(route: Route, path: string): KubeletAction {
  const subresources = {
    healthz: ["healthz", "proxy"],
    pods: ["pods", "proxy"],
    runningPods: ["pods", "proxy"],
    statsSummary: ["stats"],
    resourceMetrics: ["metrics"],
    containerLogs: ["proxy"],
    exec: ["proxy"],
    attach: ["proxy"],
    portForward: ["proxy"],
  }[route.kind];
  return { verb: isStreamRoute(route) ? "create" : "get", subresources, path };
}

function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
