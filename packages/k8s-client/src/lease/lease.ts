import { type Clock } from "@kip/base";
import type { Lease, OwnerReference } from "@kip/k8s-types";
import { ignoreNotFound, K8sError, isNotFound } from "../errors.ts";
import type { ApiClient } from "../client/api-client.ts";
import { paths } from "../client/paths.ts";
import { microTime } from "../client/wire-time.ts";

/** Options of {@link createLeaseHolder}. */
export interface LeaseHolderOptions {
  readonly client: ApiClient;
  readonly namespace: string;
  readonly name: string;
  /** `spec.holderIdentity`. */
  readonly holder: string;
  /** How long the lease is valid, seconds, 1 or more. */
  readonly durationSeconds: number;
  /** Asked before each renewal; the answer replaces what the lease has. Undefined leaves it. */
  readonly owner?: () => OwnerReference | undefined;
  readonly clock: Clock;
}

/** Keeps one Lease as ours, for node heartbeats: it takes the lease from any other holder. */
export interface LeaseHolder {
  /**
   * Writes a fresh `renewTime`; creates the lease if it is not there. One request if the lease was not
   * written by others since the last time. Needs the verbs get, create and update.
   */
  renew(signal?: AbortSignal): Promise<void>;
}

/** Makes a lease holder; does nothing until {@link LeaseHolder.renew}. */
export function createLeaseHolder(options: LeaseHolderOptions): LeaseHolder {
  const { client, namespace, name } = options;
  const path = paths.leases(namespace, name);
  let known: Lease | undefined;

  function desired(from: Lease | undefined): Lease {
    const owner = options.owner?.();
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        ...(from?.metadata ?? { name, namespace }),
        ...(owner && { ownerReferences: [owner] }),
      },
      spec: {
        ...from?.spec,
        holderIdentity: options.holder,
        leaseDurationSeconds: options.durationSeconds,
        renewTime: microTime(renewTime(from)),
      },
    };
  }

  /** Strictly increasing: a clock that was set back must not look like a dead node. */
  function renewTime(from: Lease | undefined): number {
    const last = Date.parse(from?.spec?.renewTime ?? "");
    const now = options.clock.now();
    return Number.isNaN(last) ? now : Math.max(now, last + 1);
  }

  async function write(signal: AbortSignal | undefined): Promise<Lease> {
    const request = { signal, isUrgent: true };
    return known
      ? client.replace<Lease>(path, desired(known), request)
      : client.create<Lease>(paths.leases(namespace), desired(undefined), request);
  }

  /** Undefined if the lease is gone, for example garbage-collected with its node. */
  async function read(signal: AbortSignal | undefined): Promise<Lease | undefined> {
    return await ignoreNotFound(client.get<Lease>(path, { signal, isUrgent: true }));
  }

  return {
    renew: async (signal) => {
      // Another client may delete or write the lease between our read and our write; five times in a row is unlikely.
      for (let attempt = 0; ; attempt++) {
        try {
          known = await write(signal);
          return;
        } catch (error) {
          if (attempt === 4) throw error;
          if (isNotFound(error) && known) {
            known = undefined;
          } else if (K8sError.is(error, "K8S_CONFLICT", "K8S_ALREADY_EXISTS")) {
            known = await read(signal);
          } else {
            throw error;
          }
        }
      }
    },
  };
}
