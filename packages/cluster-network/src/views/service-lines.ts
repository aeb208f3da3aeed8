import {
  bucketCount,
  bucketOf,
  encodeLine,
  TableDigest,
  type ServiceView,
} from "@kip/network-view";
import { isReadable } from "./is-readable.ts";
import { VersionedTable } from "./versioned-table.ts";

/**
 * The table of Services as lines. What several cells need is encoded once: the difference between two versions, and each
 * bucket of the table.
 */
export class ServiceLines {
  readonly #table = new VersionedTable<string>();
  readonly #digest = new TableDigest();
  readonly #keys: Set<string>[] = Array.from({ length: bucketCount }, () => new Set<string>());
  readonly #buckets = new Map<number, Buffer>();
  readonly #differences = new Map<number, Buffer>();

  get sums(): readonly number[] {
    return this.#digest.sums;
  }

  /** The line of one Service. */
  line(key: string): string | undefined {
    return this.#table.get(key);
  }

  /**
   * Takes the state of a Service. One that cells would refuse is left out.
   *
   * @returns whether that is a change
   */
  set(key: string, view: ServiceView | undefined, version: number): boolean {
    const before = this.#table.get(key);
    const line = view && encodeLine({ kind: "service", key, view });
    const after = line !== undefined && isReadable(line) ? line : undefined;
    if (before === after) return false;
    this.#table.set(key, after, version);
    this.#digest.change(key, before, after);
    const bucket = bucketOf(key);
    if (after === undefined) this.#keys[bucket]?.delete(key);
    else this.#keys[bucket]?.add(key);
    this.#buckets.delete(bucket);
    this.#differences.clear();
    return true;
  }

  /** All lines of a bucket, with the line that makes it whole. */
  bucket(number: number): Buffer {
    const known = this.#buckets.get(number);
    if (known) return known;
    const keys = [...(this.#keys[number] ?? [])];
    const lines = keys.map((key) => this.#table.get(key) ?? "");
    const buffer = Buffer.from(encodeLine({ kind: "bucket", bucket: number }) + lines.join(""));
    this.#buckets.set(number, buffer);
    return buffer;
  }

  /** Lines of what has changed after a version; undefined if that is not remembered. */
  since(version: number): Buffer | undefined {
    const known = this.#differences.get(version);
    if (known) return known;
    const changes = this.#table.since(version);
    if (!changes) return undefined;
    const lines = [...changes].map(
      ([key, line]) => line ?? encodeLine({ kind: "service", key, view: undefined }),
    );
    const buffer = Buffer.from(lines.join(""));
    this.#differences.set(version, buffer);
    return buffer;
  }
}
