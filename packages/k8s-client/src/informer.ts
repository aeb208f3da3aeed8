import type { Clock, Logger } from "@kip/base";
import type { ApiClient, KubeObject, Query } from "./api-client.ts";

/** A change that an informer saw. `previous` is what the store held before. */
export type InformerEvent<T> =
  | { readonly type: "added"; readonly object: T }
  | { readonly type: "updated"; readonly object: T; readonly previous: T }
  | { readonly type: "deleted"; readonly object: T };

/** Options of {@link createInformer}. */
export interface InformerOptions<T> {
  readonly client: ApiClient;
  /** Collection to list and watch, from `paths`. */
  readonly path: string;
  /** `fieldSelector` and `labelSelector`. */
  readonly query?: Pick<Query, "fieldSelector" | "labelSelector">;
  /**
   * Called once per change, in order. An object deleted and created again under its name is a
   * `deleted` and an `added`, even when the watch missed it: identity is the UID. A throwing handler
   * is logged and does not stop the informer. Called before {@link Informer.synced} resolves for
   * each object of the first list.
   */
  readonly onEvent?: (event: InformerEvent<T>) => void;
  /** Told of each failure of the list or the watch; the informer goes on by itself. */
  readonly onError?: (error: Error) => void;
  /** Shrinks objects before they are stored, for example to drop `managedFields` (always dropped). */
  readonly transform?: (object: T) => T;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Stops the informer. */
  readonly signal: AbortSignal;
}

/** A local copy of a collection, kept up to date by one list and one watch. */
export interface Informer<T> {
  /** Resolves when the first list is in the store. Rejects only if the signal aborts before. */
  readonly synced: Promise<void>;
  /** Whether the first list is in the store. */
  readonly isSynced: boolean;
  get(namespace: string | undefined, name: string): T | undefined;
  byUid(uid: string): T | undefined;
  list(namespace?: string): T[];
  readonly size: number;
  /** Why the last list or watch failed; undefined while it works. */
  readonly error: Error | undefined;
}

/** Starts a list-watch at once. Objects of the store must not be changed. */
export function createInformer<T extends KubeObject>(options: InformerOptions<T>): Informer<T> {
  void options;
  throw new Error("Not built yet");
}
