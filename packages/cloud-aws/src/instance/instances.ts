import type { Filter } from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { Batch } from "../batch.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { ownTags } from "../tags.ts";
import { instancesOf, type SeenInstance } from "./to-instance.ts";

/** What {@link Instances} works with. */
export interface InstancesOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly clock: Clock;
  /** Longest that EC2's answers may lack an instance that it has started, milliseconds. */
  readonly consistencyMs: number;
  readonly batchMs: number;
}

/** Values that one filter takes. */
const filterLimit = 200;

interface Launched {
  readonly seen: SeenInstance;
  readonly at: number;
}

/**
 * The owner's instances, as EC2 describes them. EC2's answers lag: what this process has launched counts as pending until an
 * answer has it, for `consistencyMs` at most.
 */
export class Instances {
  readonly #options: InstancesOptions;
  readonly #launched = new Map<string, Launched>();
  /** The latest answer on each instance that has not ended; also what shows that an ID is this owner's, which never changes. */
  readonly #alive = new Map<string, SeenInstance>();
  readonly #byId: Batch<string, SeenInstance | undefined>;
  /** Called with each answer on an instance, and the one before it if that had not ended. */
  onSeen: (seen: SeenInstance, before: SeenInstance | undefined) => void = () => {};

  constructor(options: InstancesOptions) {
    this.#options = options;
    const { clock, batchMs } = options;
    this.#byId = new Batch({
      clock,
      windowMs: batchMs,
      limit: filterLimit,
      run: async (ids) => {
        const found = await this.#describe([{ Name: "instance-id", Values: [...ids] }], "look up");
        const all = new Map(found.map((each) => [each.instance.id, each]));
        return (id) => all.get(id) ?? this.#awaited(id);
      },
    });
  }

  /** One instance, also one that has ended, as long as EC2 knows it; calls at the same time are one call of EC2. */
  async get(id: string): Promise<SeenInstance | undefined> {
    return await this.#byId.get(id);
  }

  /** The instance, unless it does not exist or has ended. */
  async describe(id: string): Promise<Instance | undefined> {
    const seen = await this.get(id);
    return seen?.instance.state === "terminated" ? undefined : seen?.instance;
  }

  /** Every instance that EC2 still knows, also those that have ended. */
  async all(): Promise<readonly SeenInstance[]> {
    const found = await this.#describe([], "list");
    const ids = new Set(found.map(({ instance }) => instance.id));
    const awaited = [...this.#launched.keys()].flatMap((id) =>
      ids.has(id) ? [] : (this.#awaited(id) ?? []),
    );
    return [...found, ...awaited];
  }

  /** Those of one token, also those that have ended. */
  async ofToken(token: string, signal?: AbortSignal): Promise<readonly SeenInstance[]> {
    return await this.#describe(
      [{ Name: `tag:${ownTags.token}`, Values: [literal(token)] }],
      "look for",
      signal,
    );
  }

  /** Takes the answer to a launch. */
  launched(seen: SeenInstance): void {
    this.#launched.set(seen.instance.id, { seen, at: this.#options.clock.monotonic() });
    this.#alive.set(seen.instance.id, seen);
  }

  /** Whether an ID is known to be this owner's, without asking. */
  isOwn(id: string): boolean {
    return this.#alive.has(id);
  }

  /** Whether EC2 may not know yet what it has launched for this process. */
  isNew(id: string): boolean {
    return this.#awaited(id) !== undefined;
  }

  #awaited(id: string): SeenInstance | undefined {
    const launched = this.#launched.get(id);
    if (!launched) return undefined;
    if (this.#options.clock.monotonic() - launched.at < this.#options.consistencyMs)
      return launched.seen;
    this.#launched.delete(id);
    return undefined;
  }

  async #describe(
    filters: readonly Filter[],
    verb: string,
    signal?: AbortSignal,
  ): Promise<readonly SeenInstance[]> {
    const { ec2, owner } = this.#options;
    const found: SeenInstance[] = [];
    let NextToken: string | undefined;
    do {
      const answer = await ec2.call(
        "DescribeInstances",
        {
          Filters: [{ Name: `tag:${ownTags.owner}`, Values: [literal(owner)] }, ...filters],
          MaxResults: 1000,
          ...(NextToken !== undefined && { NextToken }),
        },
        { purpose: `${verb} instances`, signal },
      );
      found.push(...instancesOf(answer.Reservations));
      NextToken = answer.NextToken === "" ? undefined : answer.NextToken;
    } while (NextToken !== undefined);
    for (const each of found) this.#note(each);
    return found;
  }

  #note(seen: SeenInstance): void {
    const { id, state } = seen.instance;
    const before = this.#alive.get(id);
    this.#launched.delete(id);
    if (state === "terminated") this.#alive.delete(id);
    else this.#alive.set(id, seen);
    this.onSeen(seen, before);
  }
}

/** A value of a filter that stands for itself: EC2 takes * and ? as wildcards. */
function literal(value: string): string {
  return value.replaceAll(/[\\*?]/g, String.raw`\$&`);
}
