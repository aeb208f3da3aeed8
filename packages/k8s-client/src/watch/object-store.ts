import type { KubeObject } from "../client/api-client.ts";
import type { InformerEvent } from "./informer.ts";
import { shareUnchanged } from "./share-unchanged.ts";

/**
 * Objects by namespace/name and by UID. Every change returns its events. Unchanged parts of an object are shared with its
 * earlier state, so that earlier states use little memory.
 */
export class ObjectStore<T extends KubeObject> {
  readonly #byName = new Map<string, T>();
  readonly #byUid = new Map<string, T>();

  get size(): number {
    return this.#byName.size;
  }

  get(namespace: string | undefined, name: string): T | undefined {
    return this.#byName.get(key(namespace, name));
  }

  byUid(uid: string): T | undefined {
    return this.#byUid.get(uid);
  }

  list(namespace?: string): T[] {
    const all = [...this.#byName.values()];
    return namespace === undefined
      ? all
      : all.filter((object) => object.metadata.namespace === namespace);
  }

  /** Adds an object. An object with the same name and another UID counts as deleted. */
  put(object: T): InformerEvent<T>[] {
    const previous = this.#byName.get(keyOf(object));
    if (previous && uidOf(previous) !== uidOf(object)) {
      return [...this.remove(previous), ...this.put(object)];
    }
    if (previous && versionOf(previous) === versionOf(object)) return [];
    if (previous) shareUnchanged(previous, object);
    this.#byName.set(keyOf(object), object);
    this.#byUid.set(uidOf(object), object);
    return [previous ? { type: "updated", object, previous } : { type: "added", object }];
  }

  /** Removes an object if its UID matches. The event carries the given state. */
  remove(object: T): InformerEvent<T>[] {
    const held = this.#byUid.get(uidOf(object));
    if (!held) return [];
    this.#byUid.delete(uidOf(object));
    if (this.#byName.get(keyOf(object)) === held) this.#byName.delete(keyOf(object));
    return [{ type: "deleted", object }];
  }

  /** Replaces the content with a complete list. Removals come first. */
  replaceAll(objects: readonly T[]): InformerEvent<T>[] {
    const listed = new Set(objects.map(uidOf));
    const gone = [...this.#byUid.values()].filter((object) => !listed.has(uidOf(object)));
    return [
      ...gone.flatMap((object) => this.remove(object)),
      ...objects.flatMap((object) => this.put(object)),
    ];
  }
}

function key(namespace: string | undefined, name: string): string {
  return `${namespace ?? ""}/${name}`;
}

function keyOf({ metadata }: KubeObject): string {
  return key(metadata.namespace, metadata.name);
}

function uidOf({ metadata }: KubeObject): string {
  return metadata.uid;
}

function versionOf({ metadata }: KubeObject): string {
  return metadata.resourceVersion;
}
