import { K8sError } from "../errors.ts";
import type { ApiClient } from "../client/api-client.ts";
import { wrapRequests } from "../client/wrap-requests.ts";
import type { LeaderTerm } from "./leader-lease.ts";

const reads: readonly string[] = ["GET", "LIST", "WATCH"];

/**
 * A client that changes nothing once another process may lead: each request but those that read fails with
 * `K8S_LEASE_LOST` then. The check is made before each request, by clocks that go on while the process is stopped or the machine suspended.
 */
export function fencedClient(client: ApiClient, term: Pick<LeaderTerm, "isHeld">): ApiClient {
  return wrapRequests(client, async (verb, send) => {
    if (reads.includes(verb) || term.isHeld()) return await send();
    throw new K8sError("K8S_LEASE_LOST", `Cannot send ${verb}: another process may lead now`);
  });
}
