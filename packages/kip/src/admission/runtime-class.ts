import { K8sError, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { Rejection } from "./rejection.ts";

/** Handlers of runtime classes that cells support. crun can run whatever runc runs, and every cell is its own machine. */
const handlers: ReadonlySet<string> = new Set(["crun", "runc", "kip"]);

/** Finds the handler of a runtime class. Undefined if the class does not exist. */
export type HandlerLookup = (runtimeClass: string) => Promise<string | undefined>;

/**
 * Refuses a pod whose runtime class does not exist, or has a handler that cells do not support. Other nodes of the cluster may
 * support it: such a class names them in `scheduling.nodeSelector`.
 *
 * @see https://kubernetes.io/docs/concepts/containers/runtime-class/#usage
 * @throws errors of the lookup
 */
export async function rejectRuntimeClass(
  { spec }: Pod,
  handlerOf: HandlerLookup,
): Promise<Rejection | undefined> {
  const { runtimeClassName: name = "" } = spec;
  if (name === "") return undefined;
  const handler = await handlerOf(name);
  if (handler !== undefined && handlers.has(handler)) return undefined;
  const why =
    handler === undefined
      ? `runtimeclass.node.k8s.io "${name}" not found`
      : `no runtime for "${handler}" is configured; handlers of cells are ${[...handlers].join(", ")}`;
  return {
    reason: "FailedCreatePodSandBox",
    message: `spec.runtimeClassName: Failed to create pod sandbox: ${why}`,
  };
}

/**
 * Looks up runtime classes in the API. If kip has no permission to read them, every class counts as one of crun.
 *
 * @returns a lookup that throws {@link K8sError} if the API server cannot answer
 */
export function handlersInApi(client: Pick<ApiClient, "get">): HandlerLookup {
  return async (name) => {
    try {
      const { handler } = await client.get<{ readonly handler: string }>(
        paths.runtimeClasses(name),
      );
      return handler;
    } catch (error) {
      if (K8sError.is(error, "K8S_NOT_FOUND")) return undefined;
      if (K8sError.is(error, "K8S_FORBIDDEN")) return "crun";
      throw error;
    }
  };
}
