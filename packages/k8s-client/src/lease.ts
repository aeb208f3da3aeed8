import type { Clock, Logger } from "@kip/base";
import type { OwnerReference } from "@kip/k8s-types";
import type { ApiClient } from "./api-client.ts";

/** Options of {@link createLeaseHolder}. */
export interface LeaseHolderOptions {
  readonly client: ApiClient;
  readonly namespace: string;
  readonly name: string;
  /** `spec.holderIdentity`. */
  readonly holder: string;
  /** How long the lease is valid, seconds, 4 or more. */
  readonly durationSeconds: number;
  /** Asked before each renewal; the answer replaces what the lease has. Undefined leaves it. */
  readonly owner?: () => OwnerReference | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Keeps one Lease as ours, for node heartbeats: it takes the lease whoever holds it. */
export interface LeaseHolder {
  /** Writes a fresh `renewTime`; creates the lease if it is not there. */
  renew(signal?: AbortSignal): Promise<void>;
}

/** Makes a lease holder; does nothing until {@link LeaseHolder.renew}. */
export function createLeaseHolder(options: LeaseHolderOptions): LeaseHolder {
  void options;
  throw new Error("Not built yet");
}

/** A time as `metav1.MicroTime`: `2025-01-02T03:04:05.678000Z`. */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}

/** A time as `metav1.Time`, to the second: `2025-01-02T03:04:05Z`. */
export function wireTime(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}
