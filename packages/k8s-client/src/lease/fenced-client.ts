import { K8sError } from "../errors.ts";
import type { ApiClient } from "../client/api-client.ts";
import { wrapRequests } from "../client/wrap-requests.ts";
import type { LeaderTerm } from "./leader-lease.ts";

const reads: readonly string[] = ["GET", "LIST", "WATCH"];

/**
 * Wraps a client so that it changes nothing once another process may lead. Every request that writes then fails with
 * `K8S_LEASE_LOST`. The check before each request uses clocks that advance while the process is stopped or the machine
 * suspended.
 */
export function fencedClient(client: ApiClient, term: Pick<LeaderTerm, "isHeld">): ApiClient {
  return wrapRequests(client, async (verb, send) => {
    if (reads.includes(verb) || term.isHeld()) return await send();
    throw new K8sError("K8S_LEASE_LOST", `Cannot send ${verb}: another process may lead now`);
  });
}
