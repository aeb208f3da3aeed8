import { silentLogger, untilAborted, type Clock } from "@kip/base";
import {
  createInformer,
  ignoreNotFound,
  namespaced,
  paths,
  type ApiClient,
  type KubeObject,
  type Labels,
} from "@kip/k8s-client";
import type { Container, Pod } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";

/** Options of {@link stopDeployment}. */
export interface StopDeploymentOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly deployment: { readonly namespace: string; readonly name: string };
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onProgress: (message: string) => void;
}

/** The parts of a Deployment that are read. */
export interface KipDeployment extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly selector: { readonly matchLabels?: Labels };
    readonly template: { readonly spec: { readonly containers: readonly Container[] } };
  };
}

const deployments = namespaced("/apis/apps/v1", "deployments");
const defaultNodeName = "virtual-kubelet";

/**
 * The Deployment of kip; undefined if there is none.
 *
 * @throws {ProviderError} `NODE_RUNNING` if it runs another node
 */
export async function findDeployment(
  options: Pick<StopDeploymentOptions, "client" | "nodeName" | "deployment">,
): Promise<KipDeployment | undefined> {
  const { client, nodeName, deployment } = options;
  const { namespace, name } = deployment;
  const found = await ignoreNotFound(client.get<KipDeployment>(deployments(namespace, name)));
  const its = found && nodeNameOf(found.spec.template.spec.containers);
  if (its === undefined || its === nodeName) return found;
  throw new ProviderError(
    "NODE_RUNNING",
    `Cannot stop Deployment ${namespace}/${name} for node "${nodeName}": it runs node "${its}"`,
    { remedy: `Give --nodename=${its}, or name the Deployment of "${nodeName}": --deployment` },
  );
}

/** Scales the Deployment of kip to no replicas; resolves when its pods are gone. */
export async function stopDeployment(
  found: KipDeployment,
  { client, deployment, clock, signal, onProgress }: StopDeploymentOptions,
): Promise<void> {
  const { namespace, name } = deployment;
  onProgress(`Stopping Deployment ${namespace}/${name}`);
  await client.patch(deployments(namespace, name, "scale"), { spec: { replicas: 0 } }, "merge");
  const selector = Object.entries(found.spec.selector.matchLabels ?? {});
  const done = new AbortController();
  let changed = Promise.withResolvers<void>();
  const pods = createInformer<Pod>({
    client,
    path: paths.pods(namespace),
    query: { labelSelector: selector.map(([key, value]) => `${key}=${value}`).join(",") },
    onEvent: () => changed.resolve(),
    clock,
    logger: silentLogger,
    signal: AbortSignal.any([signal, done.signal]),
  });
  try {
    await untilAborted(pods.synced, signal);
    while (pods.size > 0) {
      await untilAborted(changed.promise, signal);
      changed = Promise.withResolvers();
    }
  } finally {
    done.abort();
  }
}

/** The node that a container of kip runs, by its arguments or its environment. */
function nodeNameOf(containers: readonly Container[]): string {
  for (const { args = [], env = [] } of containers) {
    for (const [index, word] of args.entries()) {
      if (word.startsWith("--nodename=")) return word.slice("--nodename=".length);
      if (word === "--nodename") return args[index + 1] ?? "";
    }
    const variable = env.find(({ name }) => /^DEFAULT_?NODE_NAME$/.test(name));
    if (variable?.value !== undefined) return variable.value;
  }
  return defaultNodeName;
}
