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

/** Number of attempts for a forbidden request. */
const maxAttempts = 6;
const changes: ReadonlySet<string> = new Set(["PUT", "PATCH", "DELETE"]);
const backoff = { initialMs: 20, maxMs: 500 };

/**
 * Creates a client that acts as a node's kubelet, `system:node:<name>` in the group `system:nodes`. The API server's Node
 * authorizer allows it to read only the Secrets and ConfigMaps that pods on this node refer to, and to get tokens only for
 * their service accounts. The admission plugin NodeRestriction allows it to change only these pods. The configuration's user
 * needs the right to impersonate that user and group, but no right to read Secrets or change pods.
 *
 * The authorizer follows pods with a watch of its own, so it may not know yet of a pod that this node has already seen.
 * Forbidden requests are therefore repeated for about a second, except for changes of objects, which their callers repeat.
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
 * Checks that the API server accepts a client of {@link createNodeUserClient} as its node. Logs an error if the client could
 * also create other nodes, because NodeRestriction is then not enabled. Changes nothing.
 *
 * @throws {VirtualKubeletError} `VK_NODE_USER_FORBIDDEN`
 * @throws {K8sError} if the API server is unreachable
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
 * Wraps a client so that it repeats a forbidden request up to five times. It does not repeat requests that change or delete an
 * object, because by then another replica may be running the node.
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
