import { backoffDelay, type Clock, type Logger } from "@kip/base";
import {
  actAs,
  createApiClient,
  ignoreNotFound,
  K8sError,
  paths,
  wrapRequests,
  type ApiClient,
  type KubeConfig,
} from "@kip/k8s-client";
import { VirtualKubeletError } from "../errors.ts";

/** Options of {@link createNodeUserClient}. */
export interface NodeUserClientOptions {
  readonly nodeName: string;
  readonly userAgent: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Attempts of a request that is forbidden. */
const maxAttempts = 6;
const changes: ReadonlySet<string> = new Set(["PUT", "PATCH", "DELETE"]);
const backoff = { initialMs: 20, maxMs: 500 };

/**
 * A client that acts as the kubelet of a node, `system:node:<name>` in the group `system:nodes`: the API server's Node authorizer
 * lets it read the Secrets and ConfigMaps that pods bound to this node refer to, and get tokens for their service accounts;
 * no others. Its admission plugin NodeRestriction lets it change these pods alone. The user of the configuration needs the right to
 * impersonate these two, and none to read Secrets or to change pods.
 *
 * The authorizer follows the pods of the cluster by a watch of its own, so it may not know yet of a pod that this node has seen:
 * what is forbidden is tried again within about a second, but for changes of objects, which their callers repeat.
 */
export function createNodeUserClient(
  config: KubeConfig,
  { nodeName, ...options }: NodeUserClientOptions,
): ApiClient {
  const node = { user: `system:node:${nodeName}`, groups: ["system:nodes"] };
  const client = createApiClient(actAs(config, node), { ...options, sharesStreams: true });
  return retryForbidden(client, options.clock);
}

/**
 * Checks that a client of {@link createNodeUserClient} is accepted as its node, and logs an error if the API server would let it
 * make other nodes, too: then NodeRestriction is not enabled. Changes nothing.
 *
 * @throws {VirtualKubeletError} `VK_NODE_USER_FORBIDDEN`
 * @throws {K8sError} if the API server is out of reach
 */
export async function checkNodeUser(
  client: ApiClient,
  { nodeName, logger }: Pick<NodeUserClientOptions, "nodeName" | "logger">,
): Promise<void> {
  try {
    await ignoreNotFound(client.get(paths.nodes(nodeName)));
  } catch (error) {
    if (!K8sError.is(error, "K8S_FORBIDDEN")) throw error;
    throw new VirtualKubeletError(
      "VK_NODE_USER_FORBIDDEN",
      `Cannot act as node "${nodeName}": the API server refuses the user system:node:${nodeName}`,
      {
        cause: error,
        remedy:
          "Apply the roles of this version, made for this node; the API server needs --authorization-mode=Node,RBAC",
      },
    );
  }
  const other = { apiVersion: "v1", kind: "Node", metadata: { name: `not-${nodeName}` } };
  const query = { dryRun: "All" };
  const { status } = await client.request("POST", paths.nodes(), { query, body: other });
  if (status < 300)
    logger.error(
      "The API server lacks the admission plugin NodeRestriction: with a stolen token of this account, pods and nodes of others can be changed",
      { node: nodeName },
    );
}

/**
 * A client that makes a forbidden request again, up to five times. Not one that changes or deletes an object: by then another replica
 * may run the node.
 */
export function retryForbidden(client: ApiClient, clock: Clock): ApiClient {
  return wrapRequests(client, async (verb, send) => {
    if (changes.has(verb)) return await send();
    for (let attempt = 1; ; attempt++) {
      try {
        return await send();
      } catch (error) {
        if (!K8sError.is(error, "K8S_FORBIDDEN") || attempt === maxAttempts) throw error;
        await clock.sleep(backoffDelay(attempt - 1, backoff));
      }
    }
  });
}
