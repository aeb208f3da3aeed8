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
  /** Called before each renewal. The result replaces the lease's owner. Undefined leaves it unchanged. */
  readonly owner?: () => OwnerReference | undefined;
  readonly clock: Clock;
}

/** Holds one Lease for node heartbeats. It takes the lease from any other holder. */
export interface LeaseHolder {
  /**
   * Writes a new `renewTime`, and creates the lease if it does not exist. This is one request, unless someone else wrote the
   * lease since the last time. Needs the verbs get, create and update.
   */
  renew(signal?: AbortSignal): Promise<void>;
}

/** Creates a lease holder. It does nothing before {@link LeaseHolder.renew}. */
export function createLeaseHolder(options: LeaseHolderOptions): LeaseHolder {
  return new HeldLease(options);
}

/** Another client may delete or write the lease between our read and write. This many times in a row is unlikely. */
const maxAttempts = 5;

class HeldLease implements LeaseHolder {
  readonly #options: LeaseHolderOptions;
  /** The lease as last read or written. Undefined if there is none. */
  #known: Lease | undefined;

  constructor(options: LeaseHolderOptions) {
    this.#options = options;
  }

  async renew(signal?: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        this.#known = await this.#write(signal);
        return;
      } catch (error) {
        if (attempt === maxAttempts) throw error;
        if (isNotFound(error) && this.#known) this.#known = undefined;
        else if (K8sError.is(error, "K8S_CONFLICT", "K8S_ALREADY_EXISTS"))
          this.#known = await this.#read(signal);
        else throw error;
      }
    }
  }

  async #write(signal: AbortSignal | undefined): Promise<Lease> {
    const { client, namespace, name } = this.#options;
    const request = { signal, isUrgent: true };
    return this.#known
      ? client.replace<Lease>(paths.leases(namespace, name), this.#desired(this.#known), request)
      : client.create<Lease>(paths.leases(namespace), this.#desired({}), request);
  }

  /** Undefined if the lease is gone, for example garbage-collected together with its node. */
  async #read(signal: AbortSignal | undefined): Promise<Lease | undefined> {
    const { client, namespace, name } = this.#options;
    const request = { signal, isUrgent: true };
    return await ignoreNotFound(client.get<Lease>(paths.leases(namespace, name), request));
  }

  #desired({ metadata, spec }: Lease): Lease {
    const { namespace, name, holder, durationSeconds, clock } = this.#options;
    const owner = this.#options.owner?.();
    const identity = metadata ?? { name, namespace };
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: owner ? { ...identity, ownerReferences: [owner] } : identity,
      spec: {
        ...spec,
        holderIdentity: holder,
        leaseDurationSeconds: durationSeconds,
        renewTime: microTime(increasingTime(spec?.renewTime, clock.now())),
      },
    };
  }
}

/** Always increases, because after a clock was set back the node must not look dead. */
function increasingTime(last: string | undefined, now: number): number {
  const lastMs = Date.parse(last ?? "");
  return Number.isNaN(lastMs) ? now : Math.max(now, lastMs + 1);
}
