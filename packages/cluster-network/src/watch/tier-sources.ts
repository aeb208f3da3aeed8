import { untilAborted } from "@kip/base";
import {
  createInformer,
  K8sError,
  paths,
  type InformerOptions,
  type KubeObject,
} from "@kip/k8s-client";
import type { TierKind, TierObject } from "../policies/tier-policy.ts";
import { tierGroup, tierPath, tierResources, type TierResource } from "./tier-kinds.ts";

/** Options of {@link TierSources}. */
export interface TierSourcesOptions extends Pick<
  InformerOptions<KubeObject>,
  "client" | "clock" | "logger" | "signal"
> {
  readonly onPolicy: (
    type: "added" | "updated" | "deleted",
    kind: TierKind,
    object: TierObject,
  ) => void;
}

/** The fields of a CustomResourceDefinition that are read. */
interface Definition {
  readonly spec?: {
    readonly versions?: readonly { readonly name: string; readonly served?: boolean }[];
  };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

interface Watched {
  readonly version: string;
  readonly abort: AbortController;
  readonly synced: Promise<void>;
  readonly known: Map<string, TierObject>;
  /** The watch of another version. Its policies are in force until those of this version are known. */
  previous: Watched | undefined;
}

/**
 * Watches administrators' policies while their API is installed, which may change at any time. To find out, this also watches the
 * CustomResourceDefinition of each kind.
 */
export class TierSources {
  readonly #options: TierSourcesOptions;
  readonly #watched = new Map<TierKind, Watched>();
  readonly #definitions: Promise<unknown>;

  constructor(options: TierSourcesOptions) {
    this.#options = options;
    this.#definitions = Promise.all(
      tierResources.map(async (resource) => {
        await this.#follow(resource);
      }),
    );
    this.#definitions.catch(() => {}); // it was ended before
  }

  /** Resolves when all current policies are known. @throws the signal's reason */
  async synced(signal: AbortSignal): Promise<void> {
    await untilAborted(this.#definitions, signal);
    for (const { synced, abort } of this.#watched.values()) {
      const ended = AbortSignal.any([signal, abort.signal]);
      await untilAborted(synced, ended).catch((error: unknown) => {
        if (!abort.signal.aborted) throw error; // else the API was removed meanwhile
      });
    }
  }

  async #follow(resource: TierResource): Promise<void> {
    const { client, clock, logger, signal } = this.#options;
    const name = `${resource.resource}.${tierGroup}`;
    const forbidden = Promise.withResolvers<void>();
    const { synced } = createInformer<Definition>({
      client,
      clock,
      logger,
      signal,
      // Without this permission the API counts as not installed. The informer logs which permission is missing.
      onError: (error) => {
        if (K8sError.is(error, "K8S_FORBIDDEN")) forbidden.resolve();
      },
      path: paths.customResourceDefinitions(),
      query: { fieldSelector: `metadata.name=${name}` },
      transform: withoutSchemas,
      onEvent: ({ type, object }) =>
        this.#change(resource, type === "deleted" ? undefined : versionOf(resource, object)),
    });
    await Promise.race([synced, forbidden.promise]);
  }

  #change(resource: TierResource, version: string | undefined): void {
    const { kind } = resource;
    const newest = this.#watched.get(kind);
    if (newest?.version === version) return;
    const inForce = newest?.previous ?? newest;
    if (newest !== inForce) newest?.abort.abort();
    if (version === undefined) {
      inForce?.abort.abort();
      this.#watched.delete(kind);
      for (const object of inForce?.known.values() ?? [])
        this.#options.onPolicy("deleted", kind, object);
    } else if (inForce?.version === version) this.#watched.set(kind, inForce);
    else this.#watched.set(kind, this.#watch(resource, version, inForce));
  }

  /** @param previous the watch of another version. Its policies are in force until those of this one are known */
  #watch(resource: TierResource, version: string, previous: Watched | undefined): Watched {
    const { client, clock, logger, signal, onPolicy } = this.#options;
    const { kind } = resource;
    const abort = new AbortController();
    const known = new Map<string, TierObject>();
    let isInForce = previous === undefined;
    const { synced } = createInformer<TierObject>({
      client,
      clock,
      logger,
      signal: AbortSignal.any([signal, abort.signal]),
      path: tierPath(resource, version),
      onEvent: ({ type, object }) => {
        if (abort.signal.aborted) return;
        if (type === "deleted") known.delete(object.metadata.uid);
        else known.set(object.metadata.uid, object);
        if (isInForce) onPolicy(type, kind, object);
      },
    });
    const watched: Watched = { version, abort, synced, known, previous };
    synced.then(
      () => {
        if (abort.signal.aborted || !previous) return;
        isInForce = true;
        watched.previous = undefined;
        previous.abort.abort();
        for (const [uid, object] of previous.known)
          if (!known.has(uid)) onPolicy("deleted", kind, object);
        for (const [uid, object] of known)
          onPolicy(previous.known.has(uid) ? "updated" : "added", kind, object);
      },
      () => {}, // it was ended before
    );
    return watched;
  }
}

/** The version to read, once the API server serves the resource. */
function versionOf({ versions }: TierResource, { spec, status }: Definition): string | undefined {
  const isEstablished = status?.conditions?.some(
    (condition) => condition.type === "Established" && condition.status === "True",
  );
  if (isEstablished !== true) return undefined;
  const served = (spec?.versions ?? []).flatMap(({ name, served: is }) =>
    is === true ? [name] : [],
  );
  return versions.find((version) => served.includes(version));
}

/** Removes the schemas of a definition, because they are large. */
function withoutSchemas(object: Definition & KubeObject): Definition & KubeObject {
  const versions = (object.spec?.versions ?? []).map(({ name, served }) => ({
    name,
    served: served === true,
  }));
  return { ...object, spec: { versions } };
}
