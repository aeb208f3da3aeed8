import type { Readable } from "node:stream";
import { backoffDelay, errorText, pause, type Clock, type Logger } from "@kip/base";
import { K8sError } from "../errors.ts";
import type { ApiClient, KubeObject } from "../client/api-client.ts";
import { dropManagedFields } from "./drop-managed-fields.ts";
import { ObjectStore } from "./object-store.ts";
import { requireIdentity } from "./require-identity.ts";
import { SilenceLimit } from "./silence-limit.ts";
import { readWatchEvents, type WatchEvent } from "./watch-events.ts";

/** A change of an object. `previous` is its earlier state in the store. */
export type InformerEvent<T> =
  | { readonly type: "added"; readonly object: T }
  | { readonly type: "updated"; readonly object: T; readonly previous: T }
  | { readonly type: "deleted"; readonly object: T };

/** Options of {@link createInformer}. */
export interface InformerOptions<T> {
  readonly client: ApiClient;
  /** The collection to list and watch, from `paths`. */
  readonly path: string;
  /** `fieldSelector` and `labelSelector`. */
  readonly query?: { readonly fieldSelector?: string; readonly labelSelector?: string };
  /**
   * Called once per change, in order. An object that was deleted and created again with its name causes a `deleted` and an
   * `added`, even if the watch missed that, because identity is the UID. A handler's error is logged and does not stop the
   * informer. The calls for the first list come before {@link Informer.synced} resolves.
   */
  readonly onEvent?: (event: InformerEvent<T>) => void;
  /** Called for each failure of the list or watch. The informer retries on its own. */
  readonly onError?: (error: Error) => void;
  /** Shrinks objects before they are stored. `metadata.managedFields` is always removed. */
  readonly transform?: (object: T) => T;
  /** Whether to keep only `metadata` of each object. The API server then sends nothing else. @default false */
  readonly isMetadataOnly?: boolean;
  /** Objects per list request. @default 500 */
  readonly pageSize?: number;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Stops the informer. There are no events after it has aborted. */
  readonly signal: AbortSignal;
}

/** A local copy of a collection, updated by one list and one watch. */
export interface Informer<T> {
  /** Resolves when the first list is in the store. Only rejects if the signal aborts earlier. */
  readonly synced: Promise<void>;
  /** Whether the first list is in the store. */
  readonly isSynced: boolean;
  get(namespace: string | undefined, name: string): T | undefined;
  byUid(uid: string): T | undefined;
  list(namespace?: string): T[];
  readonly size: number;
  /** Why the last list or watch failed. Undefined while it works. */
  readonly error: Error | undefined;
}

/**
 * Starts to list and watch at once. Callers must not change objects of the store.
 *
 * The watch continues from the last version it has seen, including bookmarks. If that version is no longer available (410), it
 * lists again. It also lists again after two refusals in a row without an event in between, except for 429: an event that the
 * server cannot deliver would fail each attempt from the same version. Failures are retried with a back-off, indefinitely. An
 * object without name, UID or version is a failure too, so an informer's objects always have them.
 */
export function createInformer<T>(
  options: InformerOptions<T & KubeObject>,
): Informer<T & KubeObject> {
  const informer = new ListWatch(options);
  void informer.run();
  return informer;
}

const backoff = { initialMs: 100, maxMs: 15_000, jitter: 0.5 };

/** The server ends a watch after this many seconds. The random part keeps watches from ending together. */
const watchSeconds = { least: 300, spread: 300 };

class ListWatch<T extends KubeObject> implements Informer<T> {
  readonly synced: Promise<void>;
  readonly #store = new ObjectStore<T>();
  readonly #options: InformerOptions<T>;
  readonly #logger: Logger;
  readonly #firstList = Promise.withResolvers<void>();
  #isSynced = false;
  #error: Error | undefined;
  #version: string | undefined;
  #failures = 0;
  /** The body of the watch. */
  #body: Readable | undefined;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    this.#logger = options.logger.with({ component: "informer", path: options.path });
    this.synced = this.#firstList.promise;
    options.signal.addEventListener("abort", () => this.#body?.destroy(), { once: true });
    this.synced.catch(() => {}); // must not crash the process if the caller does not wait for it
  }

  get isSynced(): boolean {
    return this.#isSynced;
  }

  get error(): Error | undefined {
    return this.#error;
  }

  get size(): number {
    return this.#store.size;
  }

  get(namespace: string | undefined, name: string): T | undefined {
    return this.#store.get(namespace, name);
  }

  byUid(uid: string): T | undefined {
    return this.#store.byUid(uid);
  }

  list(namespace?: string): T[] {
    return this.#store.list(namespace);
  }

  async run(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      try {
        this.#version ??= await this.#list();
        await this.#watch(this.#version);
      } catch (error) {
        if (signal.aborted) break;
        await this.#failed(error);
      }
    }
    this.#firstList.reject(new Error("The informer was stopped before its first list"));
  }

  /** Lists in pages. @returns the version to watch from */
  async #list(): Promise<string> {
    const { client, path, signal } = this.#options;
    const objects: T[] = [];
    let version: string | undefined;
    let next: string | undefined;
    do {
      const query = {
        ...this.#options.query,
        limit: this.#options.pageSize ?? 500,
        continue: next,
      };
      const page = await client.list<T>(path, {
        query,
        signal,
        ...this.#accept("PartialObjectMetadataList"),
      });
      for (const item of page.items) objects.push(this.#shrink(item));
      version = page.metadata.resourceVersion ?? "";
      next = page.metadata.continue === "" ? undefined : page.metadata.continue;
    } while (next !== undefined);
    for (const event of this.#store.replaceAll(objects)) this.#emit(event);
    this.#error = undefined; // only the watch ends the back-off, because a list may work where no watch does
    this.#isSynced = true;
    this.#firstList.resolve();
    return version;
  }

  /** Watches until the server ends it or the connection fails. */
  async #watch(from: string): Promise<void> {
    const { client, path, signal, clock } = this.#options;
    const query = {
      ...this.#options.query,
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: from,
      timeoutSeconds: watchSeconds.least + Math.floor(Math.random() * watchSeconds.spread),
    };
    const startedAt = clock.monotonic();
    const body = await client.stream(path, {
      query,
      signal,
      ...this.#accept("PartialObjectMetadata"),
    });
    this.#body = body;
    if (signal.aborted) body.destroy();
    const silence = SilenceLimit.of(clock);
    silence.heard(body);
    body.on("data", () => silence.heard(body));
    let events = 0;
    await readWatchEvents<T>(body, path, (event) => {
      events++;
      this.#resetFailures();
      this.#apply(event);
    });
    // If the server ends watches as soon as they start, do not repeat them in a tight loop.
    if (events === 0 && clock.monotonic() - startedAt < 1000)
      throw new Error("The server ended the watch at once");
    this.#resetFailures();
  }

  #accept(kind: string): { readonly accept?: string } {
    if (this.#options.isMetadataOnly !== true) return {};
    return { accept: `application/json;as=${kind};g=meta.k8s.io;v=v1` };
  }

  #apply(received: WatchEvent<T>): void {
    const version = received.object.metadata?.resourceVersion;
    if (received.type !== "BOOKMARK") {
      const object = this.#shrink(received.object);
      const isEnd = received.type === "DELETED";
      for (const event of isEnd ? this.#store.remove(object) : this.#store.put(object))
        this.#emit(event);
    }
    if (version !== undefined) this.#version = version;
  }

  #shrink(object: T): T {
    requireIdentity(object, this.#options.path);
    dropManagedFields(object);
    return this.#options.transform?.(object) ?? object;
  }

  #emit(event: InformerEvent<T>): void {
    // Data that arrived before the abort may be read later.
    if (this.#options.signal.aborted) return;
    try {
      this.#options.onEvent?.(event);
    } catch (err) {
      this.#logger.error("Could not handle an event of an informer", { event: event.type, err });
    }
  }

  #resetFailures(): void {
    this.#failures = 0;
    this.#error = undefined;
  }

  async #failed(error: unknown): Promise<void> {
    const { clock, signal } = this.#options;
    if (K8sError.is(error, "K8S_GONE")) {
      this.#logger.debug("The watched version has expired; listing again");
      this.#version = undefined;
      if (this.#failures++ === 0) return;
    } else if (this.#failures > 0 && isRefusal(error)) {
      this.#version = undefined;
    }
    this.#error = error instanceof Error ? error : new Error(errorText(error));
    this.#options.onError?.(this.#error);
    const level = this.#failures > 0 || !this.#isSynced ? "warn" : "debug";
    this.#logger[level]("Could not list or watch", { err: this.#error });
    await pause(backoffDelay(this.#failures++, backoff, error), clock, signal);
  }
}

/** Whether the server refused the request, with a status code or an ERROR event other than "too many requests". */
function isRefusal(error: unknown): boolean {
  return (
    K8sError.is(error) && error.httpStatus !== undefined && error.code !== "K8S_TOO_MANY_REQUESTS"
  );
}
