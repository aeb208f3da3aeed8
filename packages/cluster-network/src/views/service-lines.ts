import {
  bucketCount,
  bucketOf,
  encodeLine,
  limits,
  TableDigest,
  type ServiceView,
} from "@kip/network-view";
import { namespaceOf } from "../budget/namespace-budget.ts";
import { isReadableService } from "./is-readable.ts";
import { VersionedTable } from "./versioned-table.ts";

/** Lines for one change. */
export interface LinesPart {
  readonly lines: Buffer;
  /** Names of the Services in the lines. */
  readonly keys: readonly string[];
  /** Names of the Services that did not fit. */
  readonly rest: readonly string[];
}

/** Maximum size of one bucket's lines in a change, unless one Service has more. Users decide how large Services are, and in which bucket. */
const maxBucketBytes = limits.changeBytes / 8;

/**
 * Maximum size of changed Services in one part of a change, bytes, unless one Service has more. For a slow cell, changes of the namespace
 * that changes most accumulate. Changes of other namespaces wait for at most this many bytes of them.
 */
const maxChangedBytes = 64 * 1024;

/** Approximate size of a namespace's lines that are sent to a new cell before the rest of the table, bytes. */
const namespaceBytes = 512 * 1024;

/** How many differences, and how many parts of deferred Services, are cached for other cells. Most cells need the same few. */
const maxDifferences = 32;

/** How many parts of a bucket are cached for other cells, and their maximum total size as a multiple of the bucket's size. */
const maxParts = { count: 16, times: 2 } as const;

/** Minimum number of changes of Services that are remembered. */
const minRemembered = 4096;

/** Minimum size of the cache of bucket numbers. It also contains deleted Services, because some cells may still have to remove them. */
const minCachedBuckets = 4096;

interface BucketPart {
  readonly sent: ReadonlySet<string>;
  readonly part: LinesPart;
}

const nothing: LinesPart = { lines: Buffer.alloc(0), keys: [], rest: [] };

/**
 * The table of Services as encoded lines. Lines for several cells are encoded only once: the difference between two versions, each bucket
 * of the table, and the Services of a namespace. So cells that read the table at the same time share its bytes.
 */
export class ServiceLines {
  readonly #table = new VersionedTable<string>(minRemembered);
  readonly #digest = new TableDigest();
  readonly #keys: Set<string>[] = Array.from({ length: bucketCount }, () => new Set<string>());
  /** Bytes of each bucket. */
  readonly #bytes = Array<number>(bucketCount).fill(0);
  /** Cached parts of each bucket, for cells that already have the same Services of it. The newest one is first. */
  readonly #buckets = new Map<number, readonly BucketPart[]>();
  readonly #differences = new Map<number, LinesPart>();
  /**
   * Cached parts of deferred Services, by the list that cells share. The newest one is last. Not a WeakMap, because each part has the list of
   * the next part as its rest, so one waiting cell would keep all later parts in memory.
   */
  readonly #deferredParts = new Map<readonly string[], LinesPart>();
  readonly #namespaces = new Map<string, Set<string>>();
  readonly #namespaceLines = new Map<string, Buffer>();
  /** Caches `bucketOf`, which takes as long as ten lookups in a map. */
  readonly #bucketOf = new Map<string, number>();
  /** Caches {@link ServiceLines.bucketsOf}. */
  readonly #bucketsOf = new WeakMap<readonly string[], readonly number[]>();
  /** The version of the last change. */
  #changedAt = 0;

  get sums(): readonly number[] {
    return this.#digest.sums;
  }

  /**
   * Sets the state of a Service. Leaves it out if cells would reject it.
   *
   * @returns whether anything has changed
   */
  set(key: string, view: ServiceView | undefined, version: number): boolean {
    const before = this.#table.get(key);
    const after = view && readableLine(key, view);
    if (before === after) return false;
    this.#table.set(key, after, version);
    this.#digest.change(key, before, after);
    const bucket = this.#bucket(key);
    const namespace = namespaceOf(key);
    const inNamespace = this.#namespaces.get(namespace) ?? new Set<string>();
    for (const keys of [this.#keys[bucket], inNamespace])
      if (after === undefined) keys?.delete(key);
      else keys?.add(key);
    if (inNamespace.size > 0) this.#namespaces.set(namespace, inNamespace);
    else this.#namespaces.delete(namespace);
    this.#bytes[bucket] = this.#bytesOf(bucket) + (after?.length ?? 0) - (before?.length ?? 0);
    this.#buckets.delete(bucket);
    this.#namespaceLines.delete(namespace);
    this.#differences.clear();
    this.#deferredParts.clear();
    this.#changedAt = version;
    return true;
  }

  /** Buckets of Services, without duplicates. Calls with the same array share the result. */
  bucketsOf(keys: readonly string[]): readonly number[] {
    const buckets = this.#bucketsOf.get(keys) ?? [...new Set(keys.map((key) => this.#bucket(key)))];
    this.#bucketsOf.set(keys, buckets);
    return buckets;
  }

  #bucket(key: string): number {
    const known = this.#bucketOf.get(key);
    if (known !== undefined) return known;
    if (this.#bucketOf.size > 2 * Math.max(this.#table.size, minCachedBuckets))
      for (const each of this.#bucketOf.keys())
        if (this.#table.get(each) === undefined) this.#bucketOf.delete(each);
    const bucket = bucketOf(key);
    this.#bucketOf.set(key, bucket);
    return bucket;
  }

  /** Whether a bucket has no Service. */
  isEmpty(bucket: number): boolean {
    return this.#keys[bucket]?.size === 0;
  }

  /** Lines of the Services of a namespace. Only the first ones if there are very many. */
  namespace(name: string): Buffer {
    const known = this.#namespaceLines.get(name);
    if (known) return known;
    const lines: string[] = [];
    let bytes = 0;
    for (const key of this.#namespaces.get(name) ?? []) {
      if (bytes >= namespaceBytes) break;
      const line = this.#table.get(key) ?? "";
      bytes += line.length;
      lines.push(line);
    }
    const buffer = Buffer.from(lines.join(""));
    if (buffer.length > 0) this.#namespaceLines.set(name, buffer);
    return buffer;
  }

  /**
   * Lines of a bucket for one change. Either all of them, with the line that completes the bucket, or the smallest ones if they do not all fit
   * into one change.
   *
   * @param sent names of the Services that earlier changes contained
   */
  bucket(number: number, sent: ReadonlySet<string> = new Set()): LinesPart {
    const known = this.#buckets.get(number) ?? [];
    const same = known.find((one) => areSame(one.sent, sent));
    if (same) return same.part;
    const part = this.#bucketPart(number, sent);
    const parts = [{ sent: new Set(sent), part }, ...known.slice(0, maxParts.count - 1)];
    // Each part may contain the whole bucket, so it is not enough to limit their number.
    let bytes = 0;
    const isTooMuch = (one: BucketPart): boolean =>
      (bytes += one.part.lines.length) > maxParts.times * this.#bytesOf(number);
    const end = parts.findIndex((one, index) => isTooMuch(one) && index > 0);
    this.#buckets.set(number, end < 0 ? parts : parts.slice(0, end));
    return part;
  }

  #bytesOf(bucket: number): number {
    return this.#bytes[bucket] ?? 0;
  }

  #bucketPart(number: number, sent: ReadonlySet<string>): LinesPart {
    const all = this.#keys[number] ?? new Set();
    const lines = this.#linesOf([...all].filter((key) => !sent.has(key)));
    if (sizeOf(lines) > maxBucketBytes) lines.sort(smallFirst);
    const part = this.#firstOf(lines, maxBucketBytes);
    if (part.rest.length > 0) return part;
    const kept = [...sent].filter((key) => all.has(key));
    const first = kept.map((key) => encodeLine({ kind: "kept", key })).join("");
    const head = Buffer.from(encodeLine({ kind: "bucket", bucket: number }) + first);
    return { ...part, lines: Buffer.concat([head, part.lines]) };
  }

  /**
   * Lines of the Services that have changed after a version. If not all fit into one change, those of the namespaces with the smallest changes.
   * Undefined if the changes are no longer remembered.
   */
  since(version: number): LinesPart | undefined {
    // The version also rises by other changes. Caching a difference for each of them would grow until the next change of a Service.
    if (version >= this.#changedAt) return nothing;
    const known = this.#differences.get(version);
    if (known) return known;
    const changes = this.#table.since(version);
    if (!changes) return undefined;
    const part = this.#firstOf(byNamespace(this.#linesOf([...changes.keys()])), maxChangedBytes);
    if (this.#differences.size < maxDifferences) this.#differences.set(version, part);
    return part;
  }

  /** Lines of the first Services of a list of deferred ones. Calls with the same array share the result. */
  deferred(keys: readonly string[]): LinesPart {
    if (keys.length === 0) return nothing;
    const known = this.#deferredParts.get(keys);
    if (known) return known;
    const part = this.#firstOf(this.#linesOf(keys), maxChangedBytes);
    this.#deferredParts.set(keys, part);
    const [oldest] = this.#deferredParts.keys();
    if (this.#deferredParts.size > maxDifferences && oldest) this.#deferredParts.delete(oldest);
    return part;
  }

  #linesOf(keys: readonly string[]): ServiceLine[] {
    return keys.map((key) => ({ key, line: this.#table.get(key) ?? deletionLine(key) }));
  }

  /** As many lines as fit into `most` bytes, but at least one. */
  #firstOf(all: readonly ServiceLine[], most: number): LinesPart {
    let bytes = 0;
    const end = all.findIndex(({ line }, index) => (bytes += line.length) > most && index > 0);
    const count = end < 0 ? all.length : end;
    const names = all.map(({ key }) => key);
    const lines = all.slice(0, count).map(({ line }) => line);
    return {
      lines: Buffer.from(lines.join("")),
      keys: names.slice(0, count),
      rest: names.slice(count),
    };
  }
}

/** A Service's name and its line. */
interface ServiceLine {
  readonly key: string;
  readonly line: string;
}

/** Sorts lines: namespaces with fewer bytes first, and short lines first within a namespace, so that they do not wait for long ones. */
function byNamespace(all: readonly ServiceLine[]): readonly ServiceLine[] {
  const lists = Map.groupBy(all, ({ key }) => namespaceOf(key));
  return [...lists.values()]
    .map((list) => ({ list, bytes: sizeOf(list) }))
    .sort((a, b) => a.bytes - b.bytes)
    .flatMap(({ list }) => list.sort(smallFirst));
}

function smallFirst(a: ServiceLine, b: ServiceLine): number {
  return a.line.length - b.line.length;
}

/** The line of a Service. Undefined if cells would reject it. */
function readableLine(key: string, view: ServiceView): string | undefined {
  const line = encodeLine({ kind: "service", key, view });
  return isReadableService(line, key, view) ? line : undefined;
}

function deletionLine(key: string): string {
  return encodeLine({ kind: "service", key, view: undefined });
}

/** The size of lines, bytes. All names are ASCII, so each character is one byte. */
function sizeOf(list: readonly { readonly line: string }[]): number {
  return list.reduce((sum, { line }) => sum + line.length, 0);
}

function areSame(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((key) => b.has(key));
}
