import type { KubeletAction } from "./access/user.ts";

/** A pod in a request's path. */
export interface PodPath {
  readonly namespace: string;
  readonly pod: string;
  readonly uid?: string | undefined;
}

/** The subject of a request. */
export type Route = NodeRoute | NodeLogRoute | DisabledRoute | LogRoute | StreamRoute;

/** The routes that open streams. */
export type StreamRoute =
  | ({ readonly kind: "exec" | "attach"; readonly container: string } & PodPath)
  | ({ readonly kind: "portForward" } & PodPath);

/** Routes about the node as a whole. */
export interface NodeRoute {
  readonly kind:
    | "health"
    | "pods"
    | "runningPods"
    | "configz"
    | "statsSummary"
    | "metrics"
    | "resourceMetrics"
    | "cadvisorMetrics"
    | "probeMetrics";
  /** For `health`: the only check to run. */
  readonly check?: string | undefined;
}

/** A log of the node itself, if the provider has any. */
export interface NodeLogRoute {
  readonly kind: "nodeLog";
  /** The path after `/logs/`. */
  readonly path: string;
}

/** A route of a kubelet that its operator has disabled. */
interface DisabledRoute {
  readonly kind: "disabled";
  /** The kubelet's message for it. */
  readonly message: string;
}

type LogRoute = { readonly kind: "containerLogs"; readonly container: string } & PodPath;

const nodeRoutes: ReadonlyMap<string, NodeRoute> = new Map([
  ["healthz", { kind: "health" }],
  ["healthz/ping", { kind: "health", check: "ping" }],
  ["healthz/log", { kind: "health", check: "log" }],
  ["healthz/syncloop", { kind: "health", check: "syncloop" }],
  ["pods", { kind: "pods" }],
  ["runningpods", { kind: "runningPods" }],
  ["configz", { kind: "configz" }],
  ["stats/summary", { kind: "statsSummary" }],
  ["metrics", { kind: "metrics" }],
  ["metrics/resource", { kind: "resourceMetrics" }],
  ["metrics/cadvisor", { kind: "cadvisorMetrics" }],
  ["metrics/probes", { kind: "probeMetrics" }],
]);

/** The message of a kubelet with disabled logs. */
export const logsDisabled = "logs endpoint is disabled.";

/** First segments of disabled paths. There is no machine whose internals they could show. */
const disabledRoutes: ReadonlyMap<string, string> = new Map([
  ["run", "Debug endpoints are disabled."],
  ["logs", logsDisabled],
  ["checkpoint", "checkpoint endpoint is disabled."],
  ["debug", "profiling endpoint is disabled."],
]);

/** Finds the route of a path. Ignores a trailing slash. Undefined if there is none. */
export function findRoute(path: string): Route | undefined {
  const parts = path.replace(/\/$/, "").split("/").slice(1).map(decodeSegment);
  const names = parts.filter((segment) => segment !== undefined).filter((name) => name !== "");
  if (names.length !== parts.length) return undefined;
  const plain = nodeRoutes.get(names.join("/"));
  if (plain) return plain;
  const [first = "", ...rest] = names;
  if (first === "logs" && rest.length > 0) return { kind: "nodeLog", path: rest.join("/") };
  const message = disabledRoutes.get(first);
  return message === undefined ? podRoute(first, rest) : { kind: "disabled", message };
}

function podRoute(first: string, names: readonly string[]): Route | undefined {
  const [namespace = "", pod = "", third = "", fourth] = names;
  if (first === "portForward" && (names.length === 2 || names.length === 3)) {
    return third === ""
      ? { kind: first, namespace, pod }
      : { kind: first, namespace, pod, uid: third };
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

/** The methods that a route supports. */
export function allowedMethods(route: Route): readonly string[] {
  return isStreamRoute(route) ? ["GET", "POST"] : ["GET"];
}

export function isStreamRoute(route: Route): route is StreamRoute {
  return route.kind === "exec" || route.kind === "attach" || route.kind === "portForward";
}

const verbs: ReadonlyMap<string, KubeletAction["verb"]> = new Map([
  ["POST", "create"],
  ["PUT", "update"],
  ["PATCH", "patch"],
  ["DELETE", "delete"],
]);

/** Subresources of `nodes` by a path's first segment, according to KEP-2862. `proxy` is the broadest. */
const subresources: ReadonlyMap<string, readonly string[]> = new Map([
  ["pods", ["pods", "proxy"]],
  ["runningpods", ["pods", "proxy"]],
  ["healthz", ["healthz", "proxy"]],
  ["configz", ["configz", "proxy"]],
  ["stats", ["stats"]],
  ["metrics", ["metrics"]],
  ["logs", ["log"]],
  ["checkpoint", ["checkpoint"]],
]);

/** Paths that cause something to happen in a pod. */
const acting: ReadonlySet<string> = new Set(["exec", "attach", "portForward", "run"]);

/**
 * The action of a request for an authoriser, whether its path exists or not. Opening a stream is `create` even with GET,
 * because WebSockets start with a GET. Users with read access must not be able to run commands with it.
 */
export function requestAction(method: string, path: string): KubeletAction {
  const first = decodeSegment(path.split("/")[1] ?? "") ?? "";
  const verb = acting.has(first) ? "create" : (verbs.get(method) ?? "get");
  return { verb, subresources: subresources.get(first) ?? ["proxy"], path };
}

function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
