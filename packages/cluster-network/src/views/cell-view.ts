import { bucketCount, encodeLine } from "@kip/network-view";
import type { CellPolicy, GroupSource } from "./cell-policy.ts";
import type { LinesPart, ServiceLines } from "./service-lines.ts";

/** Approximate size of the buckets in one change, bytes. A cell applies a change as one transaction. */
const changeBytes = 128 * 1024;

/** How many deferred Services are remembered individually, 8 bytes each. If there are more, their buckets are sent completely. */
const maxDeferred = 1024;

/** The encoded lines that all cells share. */
export interface SharedLines extends GroupSource {
  readonly services: ServiceLines;
}

/**
 * The part of the network view that one cell has, and what is missing. Only stores numbers and names, because all cells share the lines.
 *
 * A new cell first gets its policy and the Services that its pod is most likely to use. Then its pod may start. The rest of the table of
 * Services follows in parts.
 */
export class CellView {
  readonly #shared: SharedLines;
  readonly #first: readonly string[];
  #missingBuckets: number[];
  /** For missing buckets that are too large for one change: the Services that were already sent. */
  readonly #sent = new Map<number, Set<string>>();
  /** Changed Services that did not fit into earlier changes. */
  #deferred: readonly string[] = [];
  #version: number;
  #policy: CellPolicy;
  /** The policy that the cell has, including its groups. */
  #sentPolicy: CellPolicy | undefined;
  /** Groups of the cell that a policy in between did not name. The cell may lack changes of them, so they are sent completely. */
  readonly #staleGroups = new Set<string>();
  #isFirst = true;
  #number = 0;

  /**
   * @param options `sums`: checksums of the Services that the cell already has. `first`: namespaces whose Services are sent before all others
   */
  constructor(
    shared: SharedLines,
    options: {
      readonly sums: readonly number[];
      readonly first: readonly string[];
      readonly policy: CellPolicy;
    },
  ) {
    const { sums, first, policy } = options;
    this.#shared = shared;
    this.#policy = policy;
    this.#version = shared.version;
    const own = shared.services.sums;
    this.#missingBuckets = allBuckets().filter((bucket) => own[bucket] !== sums[bucket]);
    const missing = new Set(this.#missingBuckets);
    const hasNone = allBuckets().every((one) => missing.has(one) || shared.services.isEmpty(one));
    this.#first = hasNone && missing.size > 0 ? first : [];
  }

  /** Whether something is missing on the cell. */
  get isBehind(): boolean {
    return (
      this.#isFirst ||
      this.#policy !== this.#sentPolicy ||
      this.#missingBuckets.length > 0 ||
      this.#deferred.length > 0 ||
      this.#version < this.#shared.version
    );
  }

  /** Replaces the policy of the pod, if it differs. */
  setPolicy(policy: CellPolicy): void {
    if (policy.line.equals(this.#policy.line)) return;
    if (this.#policy !== this.#sentPolicy)
      for (const name of this.#sentPolicy?.groups ?? [])
        if (!this.#policy.groups.has(name)) this.#staleGroups.add(name);
    this.#policy = policy;
  }

  /** The next change for the cell, which ends with its number. Undefined if nothing is missing. */
  next(): readonly Buffer[] | undefined {
    if (!this.isBehind) return undefined;
    const parts = [...this.#policyParts(), ...this.#serviceParts()].filter((b) => b.length > 0);
    this.#version = this.#shared.version;
    const isOnlyFirst = this.#isFirst;
    this.#isFirst = false;
    if (parts.length === 0 && !isOnlyFirst) return undefined;
    this.#number += 1;
    return [...parts, Buffer.from(encodeLine({ kind: "end", number: this.#number }))];
  }

  #policyParts(): readonly Buffer[] {
    const [policy, sent, version] = [this.#policy, this.#sentPolicy, this.#version];
    if (policy === sent && this.#staleGroups.size === 0) return policy.since(version, this.#shared);
    const parts = policy.linesReplacing({ policy: sent, version }, this.#staleGroups, this.#shared);
    this.#sentPolicy = policy;
    this.#staleGroups.clear();
    return parts;
  }

  *#serviceParts(): Generator<Buffer> {
    const { services } = this.#shared;
    let bytes = 0;
    for (const lines of this.#changedLines()) {
      bytes += lines.length;
      yield lines;
    }
    if (this.#isFirst) {
      for (const name of this.#first) yield services.namespace(name);
      return;
    }
    // Send at least one bucket, even if there are many changes. Otherwise the table might never become complete.
    do {
      const bucket = this.#missingBuckets.pop();
      if (bucket === undefined) return;
      const sent = this.#sent.get(bucket);
      const { lines, keys, rest } = services.bucket(bucket, sent);
      bytes += lines.length;
      yield lines;
      if (rest.length === 0) this.#sent.delete(bucket);
      else this.#noteSent(bucket, keys);
    } while (bytes < changeBytes);
  }

  /** Services that have changed since the last change was made, and deferred ones. */
  #changedLines(): readonly Buffer[] {
    const { services } = this.#shared;
    const difference = services.since(this.#version);
    if (!difference) {
      this.#missingBuckets = [
        ...withoutAll(allBuckets(), this.#missingBuckets),
        ...this.#missingBuckets,
      ];
      this.#sent.clear();
      this.#deferred = [];
      return [];
    }
    const late = services.deferred(withoutAll(this.#deferred, difference.keys));
    this.#noteDeferred(late, difference.rest);
    return [difference.lines, late.lines];
  }

  /**
   * Records the Services that do not fit into this change.
   *
   * @param late the part of `#deferred` that is in this change, and its rest
   * @param more other changed Services that do not fit
   */
  #noteDeferred({ keys: sent, rest: before }: LinesPart, more: readonly string[]): void {
    const { services } = this.#shared;
    // Cells share a very long list. Do not search it for each cell.
    if (more.length > maxDeferred) {
      this.#resendBuckets([...services.bucketsOf(before), ...services.bucketsOf(more)]);
      return;
    }
    // Keep the same array if possible. Cells with the same changes share it, and the lines made from it.
    const others = withoutAll(withoutAll(more, sent), before);
    if (others.length === 0) this.#deferred = before;
    else this.#deferred = before.length === 0 ? others : [...before, ...others];
    if (this.#deferred.length > maxDeferred)
      this.#resendBuckets(services.bucketsOf(this.#deferred));
  }

  /** Replaces all deferred Services by whole buckets. If a part of a bucket was already sent, it is sent again. */
  #resendBuckets(buckets: readonly number[]): void {
    for (const bucket of buckets) this.#sent.delete(bucket);
    this.#missingBuckets.unshift(...withoutAll([...new Set(buckets)], this.#missingBuckets));
    this.#deferred = [];
  }

  /** Records the sent part of a bucket. Its rest is sent after all other buckets. */
  #noteSent(bucket: number, keys: readonly string[]): void {
    const sent = this.#sent.get(bucket) ?? new Set();
    for (const key of keys) sent.add(key);
    this.#sent.set(bucket, sent);
    this.#missingBuckets.unshift(bucket);
  }
}

/** Removes `others` from a list. Returns the same array if it contains none of them. */
function withoutAll<T>(list: readonly T[], others: readonly T[]): readonly T[] {
  if (list.length === 0 || others.length === 0) return list;
  const left = new Set(others);
  return list.some((one) => left.has(one)) ? list.filter((one) => !left.has(one)) : list;
}

function allBuckets(): number[] {
  return Array.from({ length: bucketCount }, (_, bucket) => bucket);
}
