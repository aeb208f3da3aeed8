import { type Clock, type Logger } from "@kip/base";
import {
  isNotFound,
  createInformer,
  paths,
  type ApiClient,
  type Informer,
  type KubeObject,
} from "@kip/k8s-client";
import type { ConfigMap, Secret } from "@kip/k8s-types";
import {
  configMapContent,
  secretContent,
  type Reference,
  type ReferencedContent,
  type ReferenceKind,
  type ReferenceReader,
} from "./reference.ts";

/** Options of {@link ReferenceStore}. */
export interface ReferenceStoreOptions {
  readonly client: ApiClient;
  /**
   * The scope of each watch: all objects of a kind in a namespace, or a single object, which is all that a kubelet may watch.
   * @default "namespaces"
   */
  readonly watches?: "namespaces" | "objects" | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with the UIDs of pods whose content has changed or appeared. */
  readonly onChange: (podUids: readonly string[]) => void;
}

/**
 * The ConfigMaps and Secrets that pods refer to. Gets content by name, only what pods refer to, and keeps it for as long.
 * Notices changes with metadata-only watches, one for each namespace and kind or one for each object.
 *
 * If `list` and `watch` are not permitted, `get` is enough: a pod that waits for an object then finds it at its next attempt,
 * and running pods do not get changes.
 */
export class ReferenceStore {
  readonly #options: ReferenceStoreOptions;
  readonly #scopes = new Map<string, Scope>();
  /** The objects that each pod uses, by its UID and the reference's key. */
  readonly #uses = new Map<string, Map<string, Use>>();
  #isStopped = false;

  constructor(options: ReferenceStoreOptions) {
    this.#options = options;
  }

  /**
   * A reader for one attempt to resolve a pod. Everything it reads is watched for the pod from then on. It requests each object
   * once, even a missing one, which a pod may refer to some ten thousand times.
   */
  readerFor(namespace: string, podUid: string): ReferenceReader & { readonly used: Set<string> } {
    const used = new Set<string>();
    const answers = new Map<string, Promise<ReferencedContent | undefined>>();
    return {
      used,
      read: ({ kind, name }: Reference) => {
        const known = answers.get(`${kind}/${name}`);
        if (known) return known;
        const scope = this.#scope({ kind, namespace, name });
        scope.subscribe(name, podUid);
        used.add(this.#use(podUid, { kind, namespace, name }));
        const answer = scope.read(name);
        answers.set(`${kind}/${name}`, answer);
        return answer;
      },
    };
  }

  /** Keeps only the objects that a pod still uses. Without `used`, keeps none, because the pod is gone. */
  release(podUid: string, used: ReadonlySet<string> = new Set()): void {
    const uses = this.#uses.get(podUid);
    for (const [key, { kind, namespace, name }] of uses ?? []) {
      if (used.has(key)) continue;
      uses?.delete(key);
      const scopeKey = this.#scopeKey({ kind, namespace, name });
      const scope = this.#scopes.get(scopeKey);
      scope?.release(name, podUid);
      if (!scope || scope.isUsed) continue;
      scope.stop();
      this.#scopes.delete(scopeKey);
    }
    if (uses?.size === 0) this.#uses.delete(podUid);
  }

  /** Ends all watches. Later reads do not start new ones. */
  stop(): void {
    this.#isStopped = true;
    for (const scope of this.#scopes.values()) scope.stop();
    this.#scopes.clear();
  }

  /** Records that a pod uses an object. @returns the reference's key */
  #use(podUid: string, use: Use): string {
    const key = `${use.kind}/${use.namespace}/${use.name}`;
    const uses = this.#uses.get(podUid) ?? new Map<string, Use>();
    uses.set(key, use);
    this.#uses.set(podUid, uses);
    return key;
  }

  #scopeKey({ kind, namespace, name }: Use): string {
    const all = `${kind}/${namespace}`;
    return this.#options.watches === "objects" ? `${all}/${name}` : all;
  }

  #scope(use: Use): Scope {
    const key = this.#scopeKey(use);
    const { kind, namespace } = use;
    const only = this.#options.watches === "objects" ? use.name : undefined;
    const scope = this.#scopes.get(key) ?? new Scope({ ...this.#options, kind, namespace, only });
    this.#scopes.set(key, scope);
    if (this.#isStopped) scope.stop();
    return scope;
  }
}

/** A reference with its namespace. */
interface Use extends Reference {
  readonly namespace: string;
}

interface ScopeOptions extends ReferenceStoreOptions {
  readonly kind: ReferenceKind;
  readonly namespace: string;
  /** The name of the object, if the scope is a single one. */
  readonly only: string | undefined;
}

interface Entry {
  readonly pods: Set<string>;
  /** The version that was read, or "" if the object did not exist. Undefined before the first read. */
  version: string | undefined;
  content: ReferencedContent | undefined;
  /** When it was read, milliseconds of the monotonic clock. */
  readAt: number;
  reading: Promise<ReferencedContent | undefined> | undefined;
}

/**
 * Every pod mounts its namespace's kube-root-ca.crt, which hardly ever changes, so it is not worth a watch in each namespace.
 * It is read again after this time.
 */
const rootCaName = "kube-root-ca.crt";
const rootCaMaxAgeMs = 60_000;

/** The objects of one kind in one namespace, or one of them. */
class Scope {
  readonly #options: ScopeOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #stop = new AbortController();
  #informer: Informer<KubeObject> | undefined;

  constructor(options: ScopeOptions) {
    this.#options = options;
  }

  get isUsed(): boolean {
    return this.#entries.size > 0;
  }

  subscribe(name: string, podUid: string): void {
    const entry = this.#entries.get(name) ?? {
      pods: new Set(),
      version: undefined,
      content: undefined,
      readAt: 0,
      reading: undefined,
    };
    entry.pods.add(podUid);
    this.#entries.set(name, entry);
    if (name !== rootCaName) this.#watch();
  }

  release(name: string, podUid: string): void {
    const entry = this.#entries.get(name);
    entry?.pods.delete(podUid);
    if (entry?.pods.size === 0) this.#entries.delete(name);
  }

  async read(name: string): Promise<ReferencedContent | undefined> {
    const entry = this.#entries.get(name);
    if (!entry) return undefined;
    if (this.#isCurrent(name, entry)) return entry.content;
    entry.reading ??= this.#fetch(name, entry).finally(() => {
      entry.reading = undefined;
    });
    return entry.reading;
  }

  stop(): void {
    this.#stop.abort();
  }

  #isCurrent(name: string, entry: Entry): boolean {
    if (entry.version === undefined || entry.version === "") return false;
    if (name === rootCaName) return this.#options.clock.monotonic() - entry.readAt < rootCaMaxAgeMs;
    if (this.#informer?.isSynced !== true || this.#informer.error) return false;
    const seen = this.#informer.get(this.#options.namespace, name);
    return seen?.metadata.resourceVersion === entry.version;
  }

  async #fetch(name: string, entry: Entry): Promise<ReferencedContent | undefined> {
    const { client, clock, kind, namespace } = this.#options;
    try {
      if (kind === "ConfigMap") {
        const object = await client.get<ConfigMap & KubeObject>(paths.configMaps(namespace, name));
        entry.content = configMapContent(object);
        entry.version = object.metadata.resourceVersion;
      } else {
        const object = await client.get<Secret & KubeObject>(paths.secrets(namespace, name));
        entry.content = secretContent(object);
        entry.version = object.metadata.resourceVersion;
      }
    } catch (error) {
      if (!isNotFound(error)) throw error;
      entry.content = undefined;
      entry.version = "";
      this.#watch(); // also for the root CA, because a pod may be waiting for it
    }
    entry.readAt = clock.monotonic();
    this.#wakeIfOvertaken(name, entry);
    return entry.content;
  }

  /** Reports a change whose event arrived during the read. */
  #wakeIfOvertaken(name: string, entry: Entry): void {
    if (!this.#informer?.isSynced || this.#informer.error) return;
    const seen = this.#informer.get(this.#options.namespace, name)?.metadata.resourceVersion;
    if (seen === undefined) return;
    // Versions of one resource are comparable numbers (etcd revisions).
    if (entry.version === "" || BigInt(seen) > BigInt(entry.version ?? "0"))
      this.#options.onChange([...entry.pods]);
  }

  #watch(): void {
    if (this.#informer || this.#stop.signal.aborted) return;
    const { client, clock, kind, namespace, only, logger } = this.#options;
    this.#informer = createInformer<KubeObject>({
      client,
      path: kind === "ConfigMap" ? paths.configMaps(namespace) : paths.secrets(namespace),
      ...(only !== undefined && { query: { fieldSelector: `metadata.name=${only}` } }),
      isMetadataOnly: true,
      transform: ({ metadata: { name, uid, resourceVersion } }) => ({
        metadata: { namespace, name, uid, resourceVersion },
      }),
      onEvent: ({ type, object: { metadata } }) =>
        this.#changed(metadata.name, type === "deleted" ? "" : metadata.resourceVersion),
      clock,
      logger,
      signal: this.#stop.signal,
    });
  }

  #changed(name: string, version: string): void {
    const entry = this.#entries.get(name);
    // The first list contains objects that were read before it and have not changed.
    if (!entry || entry.version === undefined || entry.version === version) return;
    this.#options.onChange([...entry.pods]);
  }
}
