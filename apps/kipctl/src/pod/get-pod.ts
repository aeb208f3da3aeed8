import { ignoreNotFound, paths } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { CommandContext } from "../cli/command.ts";
import { KipctlError } from "../errors.ts";

/** Parses the name of a pod: `NAME`, `NAMESPACE/NAME`, `pod/NAME`, or the original's `NAMESPACE_NAME`. */
export function podPath(text: string, namespace: string): { namespace: string; name: string } {
  const short = text.replace(/^(?:pods?|po)\//, "");
  const [first = "", second] = short.split(/[/_]/);
  return second === undefined ? { namespace, name: first } : { namespace: first, name: second };
}

/** The namespace of `-n`, or of the context. */
export async function currentNamespace(context: CommandContext): Promise<string> {
  return context.options.text("namespace") ?? (await context.cluster()).namespace;
}

/** Reads the pod with this name. @throws {KipctlError} `OBJECT_NOT_FOUND` */
export async function getPod(context: CommandContext, text: string): Promise<Pod> {
  const { client } = await context.cluster();
  const { namespace, name } = podPath(text, await currentNamespace(context));
  const { signal } = context;
  const pod = await ignoreNotFound(client.get<Pod>(paths.pods(namespace, name), { signal }));
  if (pod) return pod;
  throw new KipctlError(
    "OBJECT_NOT_FOUND",
    `Cannot find pod "${name}" in namespace "${namespace}"`,
    {
      remedy: `${context.program} get pods -A lists those of all namespaces; write NAMESPACE/NAME, or give -n`,
    },
  );
}
