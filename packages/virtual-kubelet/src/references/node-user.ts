import { backoffDelay, type Clock, type Logger } from "@kip/base";
import {
  actAs,
  createApiClient,
  K8sError,
  wrapRequests,
  type ApiClient,
  type KubeConfig,
} from "@kip/k8s-client";

/** Options of {@link createNodeUserClient}. */
export interface NodeUserClientOptions {
  readonly nodeName: string;
  readonly userAgent: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Attempts of a request that is forbidden. */
const maxAttempts = 6;
const backoff = { initialMs: 20, maxMs: 500 };

/**
 * A client that acts as the kubelet of a node, `system:node:<name>` in the group `system:nodes`: the API server's Node authorizer
 * lets it read the Secrets and ConfigMaps that pods bound to this node refer to, and get tokens for their service accounts;
 * no others. Its admission plugin NodeRestriction lets it change these pods alone. The user of the configuration needs the right to
 * impersonate these two, and none to read Secrets or to change pods.
 *
 * The authorizer follows the pods of the cluster by a watch of its own, so it may not know yet of a pod that this node has seen:
 * what is forbidden is tried again within about a second.
 */
export function createNodeUserClient(
  config: KubeConfig,
  { nodeName, ...options }: NodeUserClientOptions,
): ApiClient {
  const node = { user: `system:node:${nodeName}`, groups: ["system:nodes"] };
  const client = createApiClient(actAs(config, node), { ...options, sharesStreams: true });
  return retryForbidden(client, options.clock);
}

/** A client that makes a forbidden request again, up to five times. */
export function retryForbidden(client: ApiClient, clock: Clock): ApiClient {
  return wrapRequests(client, async (_verb, send) => {
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
