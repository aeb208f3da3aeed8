import { pause, silentLogger, type Clock } from "@kip/base";
import { createInformer, type ApiClient, type KubeObject } from "@kip/k8s-client";
import type { Lease, NodeCondition } from "@kip/k8s-types";

/** The fields of a Lease or Node that show that its kip is running. */
export interface Heartbeat extends KubeObject {
  readonly spec?: NonNullable<Lease["spec"]>;
  readonly status?: { readonly conditions?: readonly NodeCondition[] };
}

/** The objects to watch, and which of them count as a sign of life. */
export interface Watched {
  /** Path of the collection, from `paths`. */
  readonly path: string;
  readonly query?: { readonly fieldSelector?: string };
  readonly isSign: (object: Heartbeat) => boolean;
}

/** Options of {@link signOfLife}. */
export interface SignOfLifeOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How long to watch, milliseconds. */
  readonly limitMs: number;
}

/**
 * Waits for the first object that is a sign of life. Undefined if none comes in time. Only uses this computer's time, and does
 * not compare it with times in the objects.
 *
 * @throws the signal's reason; {K8sError} if the API does not respond in the end
 */
export async function signOfLife(
  { client, clock, signal, limitMs }: SignOfLifeOptions,
  watched: readonly Watched[],
): Promise<Heartbeat | undefined> {
  let found: Heartbeat | undefined;
  const done = new AbortController();
  const looking = AbortSignal.any([signal, done.signal]);
  for (const { isSign, ...where } of watched)
    createInformer<Heartbeat>({
      client,
      ...where,
      onEvent: ({ type, object }) => {
        if (type === "deleted" || !isSign(object)) return;
        found ??= object;
        done.abort();
      },
      clock,
      logger: silentLogger,
      signal: looking,
    });
  await pause(limitMs, clock, looking);
  done.abort();
  signal.throwIfAborted();
  // The watches may have failed.
  for (const { path, query, isSign } of watched)
    found ??= (await client.list<Heartbeat>(path, { ...(query && { query }) })).items.find(isSign);
  return found;
}

/** The heartbeat of an object as text to compare: the renewal of a Lease, or the latest heartbeat in a Node's conditions. */
export function heartbeatOf({ spec, status }: Heartbeat): string | undefined {
  const reports = status?.conditions?.map(({ lastHeartbeatTime }) => lastHeartbeatTime ?? "");
  return spec?.renewTime ?? reports?.toSorted().at(-1);
}
