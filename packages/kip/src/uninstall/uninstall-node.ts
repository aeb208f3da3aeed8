import { ignoreNotFound, paths } from "@kip/k8s-client";
import { cleanUpInTurn, type CleanUpInTurnOptions } from "../cleanup/clean-up-in-turn.ts";
import { isNodeRun } from "../cleanup/node-heartbeat.ts";
import { hasController, refuseWhileInUse, refuseWithPods } from "../cleanup/pods-of-node.ts";
import { ProviderError } from "../errors.ts";
import { turnNamespace } from "../replicas/run-in-turns.ts";
import { drainNode } from "./drain-node.ts";
import { removeShared } from "./remove-shared.ts";
import { findDeployment, stopDeployment } from "./stop-deployment.ts";

/** Options of {@link uninstallNode}. */
export interface UninstallOptions extends CleanUpInTurnOptions {
  /** The Deployment that runs kip. Its namespace contains kip's Secrets. */
  readonly deployment: { readonly namespace: string; readonly name: string };
  /** Whether to stop a running kip, after it has ended its node's pods. */
  readonly stopsKip: boolean;
}

/** Result of {@link uninstallNode}. */
export interface Uninstalled {
  /** Whether all instances of the node have ended. */
  readonly isClean: boolean;
  /** What still uses the Cell resource, which is kept in that case. */
  readonly stillUsedBy: string | undefined;
}

/**
 * Removes a virtual node and what its kip created in the cluster. If kip is running, its pods are evicted, and kip ends their
 * machines. Then its Deployment is stopped, and the rest is removed: the Node, instances, Cells, Leases, the Secret of the
 * certificate authority, and finally the Cell resource. Each step may be repeated: after an interruption, call it again.
 *
 * @throws {ProviderError} `NODE_RUNNING` if a kip is running that should not be stopped, or that does not belong to the
 * Deployment; `NODE_IN_USE` if pods would be lost
 * @throws {CloudError | K8sError} if the cloud or the API does not respond
 */
export async function uninstallNode(options: UninstallOptions): Promise<Uninstalled> {
  const { client, nodeName } = options;
  await stopKip(options);
  const isClean = await cleanUpInTurn(options);
  if (!isClean) return { isClean, stillUsedBy: `an instance of node "${nodeName}"` };
  await ignoreNotFound(client.delete(paths.leases(turnNamespace, nodeName)));
  const { namespace } = options.deployment;
  return { isClean, stillUsedBy: await removeShared({ ...options, namespace }) };
}

/** Makes the running kip end its pods, and then stops it. */
async function stopKip(options: UninstallOptions): Promise<void> {
  const { nodeName, stopsKip, endsPods, deployment, onProgress } = options;
  const found = await findDeployment(options);
  // A kip that is stopped or failing may start at any time.
  const mayStart = found !== undefined && found.spec.replicas !== 0;
  const onWait = (seconds: number): void =>
    onProgress(`Waiting up to ${seconds} s to see whether a kip runs node "${nodeName}"`);
  const isRun = await isNodeRun(options, onWait);
  if ((isRun || mayStart) && !stopsKip) {
    throw new ProviderError("NODE_RUNNING", `Cannot remove node "${nodeName}": a kip runs it`, {
      remedy: `Give --stop-kip: its pods are moved, and Deployment ${deployment.namespace}/${deployment.name} is stopped`,
    });
  }
  if (isRun) {
    if (!endsPods)
      await refuseWhileInUse(options, {
        counts: (pod) => !hasController(pod),
        what: "that nothing replaces",
        remedy: "Give --end-pods to end them",
      });
    await drainNode(options);
  } else if (!endsPods) {
    await refuseWithPods(options);
  }
  if (mayStart) await stopDeployment(found, options);
}
