import { silentLogger, untilAborted, type Clock } from "@kip/base";
import {
  createInformer,
  ignoreNotFound,
  matchesLabels,
  namespaced,
  paths,
  type ApiClient,
  type KubeObject,
} from "@kip/k8s-client";
import type { Container, Pod } from "@kip/k8s-types";
import type { LabelSelector } from "@kip/k8s-types/network";
import { ProviderError } from "../errors.ts";
import { nodeOfContainers } from "./node-of-deployment.ts";

/** Options of {@link stopDeployment}. */
export interface StopDeploymentOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly deployment: { readonly namespace: string; readonly name: string };
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onProgress: (message: string) => void;
}

/** The fields of a Deployment that are read. */
export interface KipDeployment extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly selector: LabelSelector;
    readonly template: { readonly spec: { readonly containers: readonly Container[] } };
  };
}

const deployments = namespaced("/apis/apps/v1", "deployments");

/**
 * The Deployment of kip. Undefined if it does not exist.
 *
 * @throws {ProviderError} `NODE_RUNNING` if it runs or may run another node: its node is unknown, and it has replicas
 */
export async function findDeployment(
  options: Pick<StopDeploymentOptions, "client" | "nodeName" | "deployment">,
): Promise<KipDeployment | undefined> {
  const { client, nodeName, deployment } = options;
  const { namespace, name } = deployment;
  const found = await ignoreNotFound(client.get<KipDeployment>(deployments(namespace, name)));
  if (!found) return undefined;
  const its = nodeOfContainers(found.spec.template.spec.containers);
  if (its.isKnown && its.name === nodeName) return found;
  // Nothing would be stopped.
  if (!its.isKnown && found.spec.replicas === 0) return found;
  const what = its.isKnown
    ? `it runs node "${its.name}"`
    : `its node is not known, as ${its.reason}`;
  const other = `Give --deployment and --namespace of the one that runs "${nodeName}"`;
  const cleanUp = `If none does any longer, run kip cleanup --nodename=${nodeName}`;
  const byHand = `if it is this one: kubectl drain ${nodeName} --ignore-daemonsets, then kubectl -n ${namespace} scale deployment/${name} --replicas=0, then run this again`;
  throw new ProviderError(
    "NODE_RUNNING",
    `Cannot stop Deployment ${namespace}/${name} for node "${nodeName}": ${what}`,
    { remedy: its.isKnown ? `${other}. ${cleanUp}` : `${other}; ${byHand}` },
  );
}

/** Scales kip's Deployment to zero replicas. Resolves when its pods are gone. */
export async function stopDeployment(
  found: KipDeployment,
  { client, deployment, clock, signal, onProgress }: StopDeploymentOptions,
): Promise<void> {
  const { namespace, name } = deployment;
  onProgress(`Stopping Deployment ${namespace}/${name}`);
  await client.patch(deployments(namespace, name, "scale"), { spec: { replicas: 0 } }, "merge");
  const { selector } = found.spec;
  const done = new AbortController();
  let changed = Promise.withResolvers<void>();
  const pods = createInformer<Pod>({
    client,
    path: paths.pods(namespace),
    onEvent: () => changed.resolve(),
    clock,
    logger: silentLogger,
    signal: AbortSignal.any([signal, done.signal]),
  });
  try {
    await untilAborted(pods.synced, signal);
    while (pods.list().some(({ metadata }) => matchesLabels(selector, metadata.labels ?? {}))) {
      await untilAborted(changed.promise, signal);
      changed = Promise.withResolvers();
    }
  } finally {
    done.abort();
  }
}
