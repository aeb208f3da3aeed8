import type { KubeletAction } from "./access/user.ts";

/** A pod as a path names it. */
export interface PodPath {
  readonly namespace: string;
  readonly pod: string;
  readonly uid?: string | undefined;
}

/** What a request is about. */
export type Route = NodeRoute | NodeLogRoute | DisabledRoute | LogRoute | StreamRoute;

/** The routes that open streams. */
export type StreamRoute =
  | ({ readonly kind: "exec" | "attach"; readonly container: string } & PodPath)
  | ({ readonly kind: "portForward" } & PodPath);

/** Routes that tell of the node as a whole. */
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
  /** Of `health`: the one check that is asked for. */
  readonly check?: string | undefined;
}

/** A log of the node itself, if the provider has some. */
export interface NodeLogRoute {
  readonly kind: "nodeLog";
  /** What follows `/logs/`. */
  readonly path: string;
}

/** A route of a kubelet whose operator has switched it off. */
interface DisabledRoute {
  readonly kind: "disabled";
  /** What the kubelet says then. */
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

/** What a kubelet says whose logs are switched off. */
export const logsDisabled = "logs endpoint is disabled.";

/** First segments of paths that are switched off: there is no machine whose insides they could show. */
const disabledRoutes: ReadonlyMap<string, string> = new Map([
  ["run", "Debug endpoints are disabled."],
  ["logs", logsDisabled],
  ["checkpoint", "checkpoint endpoint is disabled."],
  ["debug", "profiling endpoint is disabled."],
]);

/** Finds the route of a path; a slash at its end makes no difference. Undefined if there is none. */
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

/** The methods a route answers to. */
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

/** Subresources of `nodes` by the first segment of a path: KEP-2862, with `proxy` as the wide one. */
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

/** Paths by which something is made to happen in a pod. */
const acting: ReadonlySet<string> = new Set(["exec", "attach", "portForward", "run"]);

/**
 * What a request means to an authoriser, whether its path leads anywhere or not. Opening a stream is
 * `create` for a GET too: WebSockets begin with one, and who may look must not be able to act by it.
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
