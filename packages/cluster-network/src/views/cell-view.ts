import { bucketCount, encodeLine } from "@kip/network-view";
import type { CellPolicy, GroupSource } from "./cell-policy.ts";
import type { LinesPart, ServiceLines } from "./service-lines.ts";

/** About as many bytes of buckets go into one change: a cell takes it as one transaction. */
const changeBytes = 128 * 1024;

/** How many Services that changes had no room for are remembered one by one, 8 bytes each. If there are more, their buckets are sent whole. */
const maxDeferred = 1024;

/** What all cells share. */
export interface SharedLines extends GroupSource {
  readonly services: ServiceLines;
}

/**
 * What one cell has of the network, and what it lacks. Keeps numbers and names only: lines are shared by all cells.
 *
 * A new cell first gets its policy and the Services that its pod is most likely to use; with that its pod may start. The
 * rest of the table follows in parts.
 */
export class CellView {
  readonly #shared: SharedLines;
  readonly #first: readonly string[];
  #missingBuckets: number[];
  /** For missing buckets that are too large for one change: the Services that were sent already. */
  readonly #sent = new Map<number, Set<string>>();
  /** Changed Services that earlier changes had no room for. */
  #deferred: readonly string[] = [];
  #version: number;
  #policy: CellPolicy;
  /** The policy that the cell has, with its groups. */
  #sentPolicy: CellPolicy | undefined;
  /** Groups that the cell has, and that a policy in between did not name. Their changes may have been missed, so they are sent whole. */
  readonly #staleGroups = new Set<string>();
  #isFirst = true;
  #number = 0;

  /**
   * @param options `sums` of the Services that the cell has already; `first` names namespaces whose Services come before all others
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

  /** Whether the cell lacks something. */
  get isBehind(): boolean {
    return (
      this.#isFirst ||
      this.#policy !== this.#sentPolicy ||
      this.#missingBuckets.length > 0 ||
      this.#deferred.length > 0 ||
      this.#version < this.#shared.version
    );
  }

  /** Replaces the policy of the pod, if it says something else. */
  setPolicy(policy: CellPolicy): void {
    if (policy.line.equals(this.#policy.line)) return;
    if (this.#policy !== this.#sentPolicy)
      for (const name of this.#sentPolicy?.groups ?? [])
        if (!this.#policy.groups.has(name)) this.#staleGroups.add(name);
    this.#policy = policy;
  }

  /** The next change for the cell, ended by its number; undefined if the cell lacks nothing. */
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
    // At least one bucket, however many changes there are: otherwise the table might never be complete.
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

  /** What has changed since the last change, and what earlier ones had no room for. */
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
   * Notes what this change has no room for either.
   *
   * @param late what this change has of `#late`, and what is left of it
   * @param more further Services that have changed and have no room in this change
   */
  #noteDeferred({ keys: sent, rest: before }: LinesPart, more: readonly string[]): void {
    const { services } = this.#shared;
    // Cells share a very long list, and it is not searched for each of them.
    if (more.length > maxDeferred) {
      this.#resendBuckets([...services.bucketsOf(before), ...services.bucketsOf(more)]);
      return;
    }
    // Keep the list itself if possible: cells that have taken the same changes share it, and the lines made from it.
    const others = withoutAll(withoutAll(more, sent), before);
    if (others.length === 0) this.#deferred = before;
    else this.#deferred = before.length === 0 ? others : [...before, ...others];
    if (this.#deferred.length > maxDeferred)
      this.#resendBuckets(services.bucketsOf(this.#deferred));
  }

  /** Has whole buckets sent in place of all late Services, and from their beginning if a part of them was sent. */
  #resendBuckets(buckets: readonly number[]): void {
    for (const bucket of buckets) this.#sent.delete(bucket);
    this.#missingBuckets.unshift(...withoutAll([...new Set(buckets)], this.#missingBuckets));
    this.#deferred = [];
  }

  /** The rest of a bucket comes after all others. */
  #noteSent(bucket: number, keys: readonly string[]): void {
    const sent = this.#sent.get(bucket) ?? new Set();
    for (const key of keys) sent.add(key);
    this.#sent.set(bucket, sent);
    this.#missingBuckets.unshift(bucket);
  }
}

/** The list itself if it has nothing of the other one. */
function withoutAll<T>(list: readonly T[], others: readonly T[]): readonly T[] {
  if (list.length === 0 || others.length === 0) return list;
  const left = new Set(others);
  return list.some((one) => left.has(one)) ? list.filter((one) => !left.has(one)) : list;
}

function allBuckets(): number[] {
  return Array.from({ length: bucketCount }, (_, bucket) => bucket);
}
