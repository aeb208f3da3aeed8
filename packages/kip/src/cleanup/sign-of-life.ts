import { pause, silentLogger, type Clock } from "@kip/base";
import { createInformer, type ApiClient, type KubeObject } from "@kip/k8s-client";
import type { Lease, NodeCondition } from "@kip/k8s-types";

/** What of a Lease or a Node says that its kip runs. */
export interface Heart extends KubeObject {
  readonly spec?: NonNullable<Lease["spec"]>;
  readonly status?: { readonly conditions?: readonly NodeCondition[] };
}

/** Objects that are looked at, and which of them is a sign of life. */
export interface Watched {
  /** Collection, from `paths`. */
  readonly path: string;
  readonly query?: { readonly fieldSelector?: string };
  readonly isSign: (object: Heart) => boolean;
}

/** Options of {@link signOfLife}. */
export interface SignOfLifeOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How long to look, milliseconds. */
  readonly limitMs: number;
}

/**
 * The first object that is a sign of life, as soon as there is one; undefined if there was none for the whole time. The time is
 * this computer's alone: what the objects say about when they were written is compared with nothing.
 *
 * @throws the signal's reason; {K8sError} if the API does not answer in the end
 */
export async function signOfLife(
  { client, clock, signal, limitMs }: SignOfLifeOptions,
  watched: readonly Watched[],
): Promise<Heart | undefined> {
  let found: Heart | undefined;
  const done = new AbortController();
  const looking = AbortSignal.any([signal, done.signal]);
  for (const { isSign, ...where } of watched)
    createInformer<Heart>({
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
    found ??= (await client.list<Heart>(path, { ...(query && { query }) })).items.find(isSign);
  return found;
}

/** Changes with each heartbeat: of a Lease its renewal, of a Node the latest report of a condition. */
export function heartbeatOf({ spec, status }: Heart): string | undefined {
  const reports = status?.conditions?.map(({ lastHeartbeatTime }) => lastHeartbeatTime ?? "");
  return spec?.renewTime ?? reports?.toSorted().at(-1);
}
