import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "@kip/base";
import { K8sError, wireTime, type ApiClient, type Query } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { isStandby, type Cell, type StandbyCell } from "../../state/cell.ts";
import { mergePatch, strategicPatch } from "./merge.ts";
import { brokenRules } from "./status-rules.ts";

/** An object as the server stores it. */
export interface StoredObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
    readonly generation?: number;
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
    readonly finalizers?: readonly string[];
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

interface Change {
  readonly version: number;
  readonly resource: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: StoredObject;
  /** The version before. Undefined for a new object. */
  readonly before: StoredObject | undefined;
}

interface Watch {
  readonly resource: string;
  readonly matches: (object: StoredObject) => boolean;
  readonly body: PassThrough;
}

interface Place {
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

interface Precondition {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

/** Reason of a pod that another client has ended. */
export const byAnotherClient = "ByAnotherClient";

/** Existing resources. Others are forbidden, including those of the cluster's network. */
const served: ReadonlySet<string> = new Set([
  "pods",
  "cells",
  "nodes",
  "secrets",
  "events",
  "services",
  "namespaces",
  "leases",
  "customresourcedefinitions",
]);

const pathShape =
  /^\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+))?(?:\/([a-z]+))?$/;

/**
 * An in-memory API server with the rules that kip and its virtual kubelet rely on: versions, preconditions, finalizers, grace
 * periods.
 */
export class ApiServer {
  /** Violations of rules that must always hold. */
  readonly mistakes: string[] = [];
  /** While set, open streams deliver nothing. The events follow later. */
  #isSilent = false;
  readonly #clock: Clock;
  readonly #objects = new Map<string, Map<string, StoredObject>>();
  #history: Change[] = [];
  readonly #watches = new Map<Watch, Change[]>();
  #version = 0;
  /** Watches from an earlier version get `K8S_GONE`. */
  #oldest = 0;
  #uids = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A client whose calls only fail for the server's own reasons. */
  get client(): ApiClient {
    const client = {
      server: "https://192.0.2.254",
      get: async (path: string) => copy(this.#get(placeOf(path))),
      list: async (path: string, options: { readonly query?: Query } = {}) =>
        this.#list(placeOf(path), options.query ?? {}),
      create: async (path: string, body: object) => copy(this.#create(placeOf(path), body)),
      replace: async (path: string, body: object) => copy(this.#replace(placeOf(path), body)),
      patch: async (path: string, body: object, type: string) =>
        copy(this.#patch(placeOf(path), body, type)),
      delete: async (
        path: string,
        options: Precondition & { readonly graceSeconds?: number } = {},
      ) => copy(this.#delete(placeOf(path), options)),
      stream: async (path: string, options: StreamOptions = {}) =>
        this.#watch(placeOf(path), options),
      close: () => {},
    };
    return client as unknown as ApiClient; // the methods that are called
  }

  pods(): readonly Pod[] {
    return this.#all("pods") as unknown as readonly Pod[]; // the server stores only pods there
  }

  /** The pods and Cells. */
  stored(): readonly StoredObject[] {
    return [...this.#all("pods"), ...this.#all("cells")];
  }

  cells(): readonly (Cell | StandbyCell)[] {
    return this.#all("cells") as unknown as readonly (Cell | StandbyCell)[]; // see above
  }

  /** Breaks off all watches. They do not deliver pending events. */
  dropWatches(): void {
    for (const { body } of this.#watches.keys()) body.destroy(new Error("The connection was cut"));
    this.#watches.clear();
  }

  /** Forgets all versions up to now. A watch from one of them needs a new list. */
  forgetHistory(): void {
    this.#oldest = this.#version;
    this.#history = [];
  }

  get isSilent(): boolean {
    return this.#isSilent;
  }

  set isSilent(isSilent: boolean) {
    this.#isSilent = isSilent;
    if (isSilent) return;
    for (const [watch, untold] of this.#watches)
      for (const change of untold.splice(0)) tell(watch, change);
  }

  #all(resource: string): readonly StoredObject[] {
    return [...(this.#objects.get(resource)?.values() ?? [])];
  }

  #get(place: Place): StoredObject {
    const found = this.#objects.get(place.resource)?.get(keyOf(place));
    if (found) return found;
    throw new K8sError("K8S_NOT_FOUND", `There is no ${keyOf(place)}`, { httpStatus: 404 });
  }

  #list(place: Place, query: Query): unknown {
    const matches = selectorOf(place, query);
    const items = this.#all(place.resource).filter(matches).map(copy);
    return { metadata: { resourceVersion: String(this.#version) }, items };
  }

  #create(place: Place, body: object): StoredObject {
    const given = body as StoredObject; // kip's request
    if (place.subresource === "eviction") {
      const { gracePeriodSeconds } =
        (body as { deleteOptions?: { gracePeriodSeconds?: number } }).deleteOptions ?? {};
      return this.#delete(
        { ...place, subresource: undefined },
        { graceSeconds: gracePeriodSeconds },
      );
    }
    const { name } = given.metadata;
    const named = { ...place, name };
    if (place.resource === "events") return given;
    if (this.#objects.get(place.resource)?.has(keyOf(named)) === true)
      throw new K8sError("K8S_ALREADY_EXISTS", name, { httpStatus: 409 });
    const metadata = {
      ...given.metadata,
      ...(place.namespace !== undefined && { namespace: place.namespace }),
      uid: uidOf(++this.#uids),
      generation: 1,
      creationTimestamp: wireTime(this.#clock.now()),
    };
    return this.#store(place.resource, { ...structuredClone(given), metadata }, "ADDED");
  }

  #replace(place: Place, body: object): StoredObject {
    const before = this.#get(place);
    const given = structuredClone(body) as StoredObject; // kip's request
    check(before, given.metadata);
    const metadata = { ...before.metadata, ...given.metadata };
    return this.#store(place.resource, { ...given, metadata }, "MODIFIED");
  }

  #patch(place: Place, patch: object, type: string): StoredObject {
    const { resource, subresource } = place;
    const known = this.#objects.get(resource)?.get(keyOf(place));
    if (!known && type === "apply" && subresource === undefined)
      return this.#create({ ...place, name: undefined }, patch);
    const before = this.#get(place);
    const { metadata = {}, ...rest } = patch as { metadata?: Precondition };
    check(before, metadata);
    const { resourceVersion: _, ...meta } = metadata as { resourceVersion?: string };
    const parts =
      subresource === "status" ? { status: (rest as { status?: unknown }).status } : rest;
    const change = structuredClone({ ...parts, metadata: meta });
    const merged =
      type === "strategic" ? strategicPatch(before, change) : mergePatch(before, change);
    const next = merged as StoredObject; // a patch of an object of this kind
    this.#checkChange(resource, before, next);
    const { deletionTimestamp, finalizers = [], deletionGracePeriodSeconds = 0 } = next.metadata;
    const isEnded = deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0;
    if (isEnded && finalizers.length === 0) return this.#remove(resource, next);
    if (isDeepStrictEqual(before, next)) return before;
    return this.#store(resource, next, "MODIFIED");
  }

  #checkChange(resource: string, before: StoredObject, next: StoredObject): void {
    const { name } = before.metadata;
    if (resource === "cells") {
      const cell = before as unknown as Cell | StandbyCell; // the resource determines the kind
      if (!isStandby(cell) && !isDeepStrictEqual(before.spec, next.spec))
        this.mistakes.push(`${name} got another spec`);
    }
    const phase = before.status?.["phase"];
    const isFinal = resource === "pods" && (phase === "Succeeded" || phase === "Failed");
    // Kip may not know yet what another client wrote.
    if (
      isFinal &&
      before.status?.["reason"] !== byAnotherClient &&
      next.status?.["phase"] !== phase
    )
      this.mistakes.push(`pod ${name} went from ${phase} to ${String(next.status?.["phase"])}`);
    if (resource !== "pods") return;
    const runsAgain = next.spec?.["restartPolicy"] !== "Never";
    for (const broken of brokenRules(before.status ?? {}, next.status ?? {}, { runsAgain }))
      this.mistakes.push(`pod ${name}: ${broken}`);
  }

  #delete(
    place: Place,
    options: Precondition & { readonly graceSeconds?: number | undefined },
  ): StoredObject {
    const object = this.#get(place);
    check(object, options);
    if (place.resource === "pods") return this.#deletePod(object, options.graceSeconds);
    const { finalizers = [], deletionTimestamp } = object.metadata;
    if (finalizers.length === 0) return this.#remove(place.resource, object);
    if (deletionTimestamp !== undefined) return object;
    const metadata = { ...object.metadata, deletionTimestamp: wireTime(this.#clock.now()) };
    return this.#store(place.resource, { ...object, metadata }, "MODIFIED");
  }

  #deletePod(pod: StoredObject, graceSeconds: number | undefined): StoredObject {
    const { phase } = pod.status ?? {};
    const own = pod.spec?.["terminationGracePeriodSeconds"] as number | undefined;
    const isFinal = phase === "Succeeded" || phase === "Failed";
    const asked = isFinal ? 0 : (graceSeconds ?? own ?? 30);
    const { deletionGracePeriodSeconds: known, deletionTimestamp, finalizers = [] } = pod.metadata;
    if (asked === 0 && finalizers.length === 0) return this.#remove("pods", pod);
    if (deletionTimestamp !== undefined && known !== undefined && known <= asked) return pod;
    const metadata = {
      ...pod.metadata,
      generation: (pod.metadata.generation ?? 1) + 1,
      deletionTimestamp: wireTime(this.#clock.now() + asked * 1000),
      deletionGracePeriodSeconds: asked,
    };
    return this.#store("pods", { ...pod, metadata }, "MODIFIED");
  }

  #store(resource: string, object: StoredObject, type: "ADDED" | "MODIFIED"): StoredObject {
    const resourceVersion = String(++this.#version);
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion } };
    const all = this.#objects.get(resource) ?? new Map<string, StoredObject>();
    const before = all.get(keyOfObject(stored));
    this.#objects.set(resource, all.set(keyOfObject(stored), stored));
    this.#changed({ version: this.#version, resource, type, object: stored, before });
    return stored;
  }

  #remove(resource: string, object: StoredObject): StoredObject {
    this.#objects.get(resource)?.delete(keyOfObject(object));
    const resourceVersion = String(++this.#version);
    const removed = { ...object, metadata: { ...object.metadata, resourceVersion } };
    const change = { version: this.#version, resource, object: removed, before: object };
    this.#changed({ ...change, type: "DELETED" });
    return removed;
  }

  #changed(change: Change): void {
    this.#history.push(change);
    for (const [watch, untold] of this.#watches)
      if (this.#isSilent) untold.push(change);
      else tell(watch, change);
  }

  #watch(place: Place, { query = {}, signal }: StreamOptions): IncomingMessage {
    const from = Number(query["resourceVersion"] ?? 0);
    if (from < this.#oldest)
      throw new K8sError("K8S_GONE", "The version is too old", { httpStatus: 410 });
    const body = new PassThrough();
    body.on("error", () => {});
    const watch = { resource: place.resource, matches: selectorOf(place, query), body };
    const missed = this.#history.filter(({ version }) => version > from);
    this.#watches.set(watch, []);
    for (const change of missed) {
      if (this.#isSilent) this.#watches.get(watch)?.push(change);
      else tell(watch, change);
    }
    const end = (): void => {
      this.#watches.delete(watch);
      body.destroy();
    };
    body.once("close", () => this.#watches.delete(watch));
    if (signal?.aborted === true) end();
    signal?.addEventListener("abort", end, { once: true });
    return body as unknown as IncomingMessage; // its reader uses it as a stream
  }
}

interface StreamOptions {
  readonly query?: Query;
  readonly signal?: AbortSignal;
}

function placeOf(path: string): Place {
  const [, namespace, resource = "", name, subresource] = pathShape.exec(path) ?? [];
  if (served.has(resource)) return { resource, namespace, name, subresource };
  throw new K8sError("K8S_FORBIDDEN", `${path} is not for kip`, { httpStatus: 403 });
}

function keyOf({ namespace, name = "" }: Place): string {
  return `${namespace ?? ""}/${name}`;
}

function keyOfObject({ metadata }: StoredObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

/** (In)equality of one label, and equality of one field: the selectors that kip uses. */
function selectorOf({ namespace }: Place, query: Query): (object: StoredObject) => boolean {
  const labels = /^(.+?)(!?=)(.*)$/.exec(String(query["labelSelector"] ?? ""));
  const [field = "", fieldValue] = String(query["fieldSelector"] ?? "").split("=");
  return (object) => {
    const { metadata } = object;
    if (namespace !== undefined && metadata.namespace !== namespace) return false;
    const [, label = "", operator, value] = labels ?? [];
    const hasLabel = metadata.labels?.[label] === value;
    if (labels && hasLabel !== (operator === "=")) return false;
    if (fieldValue === undefined) return true;
    const [part, key = ""] = field.split(".");
    const of = part === "spec" ? object.spec : (metadata as Readonly<Record<string, unknown>>);
    return of?.[key] === fieldValue;
  };
}

function check({ metadata }: StoredObject, { uid, resourceVersion }: Precondition): void {
  const isOther = uid !== undefined && uid !== metadata.uid;
  const isOlder = resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion;
  if (isOther || isOlder) throw new K8sError("K8S_CONFLICT", metadata.name, { httpStatus: 409 });
}

/** An object that begins or ceases to match counts as added or deleted. */
function tell({ resource, matches, body }: Watch, change: Change): void {
  const { type, object, before } = change;
  const was = before !== undefined && matches(before);
  const is = type !== "DELETED" && matches(object);
  if (change.resource !== resource || (!was && !is)) return;
  const told = !is ? "DELETED" : was ? "MODIFIED" : "ADDED";
  body.write(`${JSON.stringify({ type: told, object })}\n`);
}

function uidOf(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
}

function copy<T>(value: T): T {
  return structuredClone(value);
}
