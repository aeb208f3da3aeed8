import type { Filter } from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { Batch } from "../batch.ts";
import { eachPage } from "../ec2/all-pages.ts";
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
  /** Before an instance that this process does not know is looked for again, milliseconds. */
  readonly pollMs: number;
}

/** Values that one filter takes. */
const filterLimit = 200;

/** An instance that this process knows and that has not ended. */
interface Known {
  /** By the launch, or by the latest answer that had it. */
  readonly seen: SeenInstance;
  /** Since when answers lack it; undefined if the latest had it. Monotonic, milliseconds. */
  missingSince?: number | undefined;
  /** No answer has had it since its launch. */
  readonly isNew: boolean;
  /** This process has asked for its end, or waits for it. */
  isEndExpected: boolean;
}

/**
 * The owner's instances, as EC2 describes them. EC2's answers lag, and a later one may lack what an earlier one had: an instance
 * that this process knows counts as it was last seen until all answers have lacked it for `consistencyMs`.
 */
export class Instances {
  readonly #options: InstancesOptions;
  /** Also what shows that an ID is this owner's, which never changes. */
  readonly #alive = new Map<string, Known>();
  readonly #byId: Batch<string, SeenInstance | undefined>;
  /** Called once for each instance that this process knew and whose end it did not expect. */
  onEnded: (instance: Instance) => void = () => {};
  /** Called with each answer that has a running instance to which routes must lead. */
  onRouted: (seen: SeenInstance) => void = () => {};
  /** Called for each instance that has ended, whether that was expected or not. */
  onGone: (id: string) => void = () => {};
  /** Called with each answer that has an instance which EC2 takes back, and when; before its end. */
  onInterrupted: (instance: Instance, endsAt: string) => void = () => {};

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
        return (id) => all.get(id) ?? this.#missing(id);
      },
    });
  }

  /** One instance, also one that has ended, as long as EC2 knows it; calls at the same time are one call of EC2. */
  async get(id: string): Promise<SeenInstance | undefined> {
    return await this.#byId.get(id);
  }

  /** The instance, unless it does not exist or has ended. */
  async describe(id: string): Promise<Instance | undefined> {
    const seen = (await this.get(id)) ?? (await this.#lookAgain(id));
    return seen?.instance.state === "terminated" ? undefined : seen?.instance;
  }

  /** Every instance that EC2 still knows, also those that have ended. */
  async all(): Promise<readonly SeenInstance[]> {
    const found = await this.#describe([], "list");
    const ids = new Set(found.map(({ instance }) => instance.id));
    const missing = [...this.#alive.keys()].flatMap((id) =>
      ids.has(id) ? [] : (this.#missing(id) ?? []),
    );
    return [...found, ...missing];
  }

  /** Those of one token, also those that have ended. */
  async ofToken(token: string, signal?: AbortSignal): Promise<readonly SeenInstance[]> {
    return await this.#describe(
      [{ Name: `tag:${ownTags.token}`, Values: [literal(token)] }],
      "look for",
      signal,
    );
  }

  /** Whether it was pending when this process saw it last; asks nothing. */
  wasPending(id: string): boolean {
    return this.#alive.get(id)?.seen.instance.state === "pending";
  }

  /** Whether routes lead to it, as far as this process has seen it; asks nothing. */
  hasRoutes(id: string): boolean {
    return (this.#alive.get(id)?.seen.routes.length ?? 0) > 0;
  }

  /** The interface that routes lead to it by, as far as this process has seen it; asks nothing. */
  routedInterfaceOf(id: string): string | undefined {
    return this.#alive.get(id)?.seen.routedInterface;
  }

  /** Address of its agent, as this process saw it last; asks nothing. */
  managementIpOf(id: string): string | undefined {
    return this.#alive.get(id)?.seen.instance.managementIp;
  }

  /** Whether this process has asked for its end, or waits for it, and has not seen it yet; asks nothing. */
  isEnding(id: string): boolean {
    return this.#alive.get(id)?.isEndExpected === true;
  }

  /** Whether the latest answer lacked it, so that it counts as it was last seen; asks nothing. */
  isMissing(id: string): boolean {
    return this.#alive.get(id)?.missingSince !== undefined;
  }

  /** Takes the answer to a launch. */
  launched(seen: SeenInstance): void {
    const missingSince = this.#options.clock.monotonic();
    this.#alive.set(seen.instance.id, { seen, missingSince, isNew: true, isEndExpected: false });
  }

  /** This process has asked for the end of an instance, or waits for it. */
  expectEnd(id: string): void {
    const known = this.#alive.get(id);
    if (known) known.isEndExpected = true;
  }

  /** Whether an ID is known to be this owner's, without asking. */
  isOwn(id: string): boolean {
    return this.#alive.has(id);
  }

  /** Whether EC2 may not know yet what it has launched for this process. */
  isNew(id: string): boolean {
    return this.#alive.get(id)?.isNew === true && this.#missing(id) !== undefined;
  }

  /** What is known of an instance that an answer lacks; undefined if that is a proof that it has ended. */
  #missing(id: string): SeenInstance | undefined {
    const known = this.#alive.get(id);
    if (!known) return undefined;
    const now = this.#options.clock.monotonic();
    known.missingSince ??= now;
    if (now - known.missingSince < this.#options.consistencyMs) return known.seen;
    this.#ended(known, known.seen, "EC2 no longer knows the instance");
    return undefined;
  }

  /** One answer does not prove that there is no such instance: another process may have launched it a moment ago. */
  async #lookAgain(id: string): Promise<SeenInstance | undefined> {
    await this.#options.clock.sleep(this.#options.pollMs);
    return await this.get(id);
  }

  async #describe(
    filters: readonly Filter[],
    verb: string,
    signal?: AbortSignal,
  ): Promise<readonly SeenInstance[]> {
    const { ec2, owner } = this.#options;
    const pages = eachPage(
      ec2,
      "DescribeInstances",
      {
        Filters: [...filters, { Name: `tag:${ownTags.owner}`, Values: [literal(owner)] }],
        MaxResults: 1000,
      },
      { purpose: `${verb} instances`, signal },
    );
    const found: SeenInstance[] = [];
    // A page of a thousand instances takes MiB until it is read.
    for await (const { Reservations } of pages)
      found.push(...instancesOf(Reservations).map((each) => this.#withKnownIpv6(each)));
    for (const each of found) this.#note(each);
    return found;
  }

  /** Its addresses of IPv6 are those it had first: a further one of the interface may come before them in the alphabet. */
  #withKnownIpv6(seen: SeenInstance): SeenInstance {
    const ipv6 = this.#alive.get(seen.instance.id)?.seen.instance.ipv6;
    return ipv6 ? { ...seen, instance: { ...seen.instance, ipv6 } } : seen;
  }

  #note(seen: SeenInstance): void {
    const { id, state } = seen.instance;
    const known = this.#alive.get(id);
    const isAlive = state === "pending" || state === "running";
    if (seen.interruption !== undefined && (isAlive || known?.isEndExpected === false))
      this.onInterrupted(seen.instance, seen.interruption);
    // What is shutting down may still run: it has ended when it is terminated.
    if (state === "terminated") this.#ended(known, seen, "EC2 has ended the instance");
    else this.#alive.set(id, { seen, isNew: false, isEndExpected: known?.isEndExpected === true });
    if (state === "running" && seen.routes.length > 0 && known?.isEndExpected !== true)
      this.onRouted(seen);
  }

  #ended(known: Known | undefined, { instance, reason }: SeenInstance, why: string): void {
    this.#alive.delete(instance.id);
    this.onGone(instance.id);
    if (!known || known.isEndExpected) return;
    this.onEnded({ ...instance, state: "terminated", stateReason: reason === "" ? why : reason });
  }
}

/** A value of a filter that stands for itself: EC2 takes * and ? as wildcards. */
function literal(value: string): string {
  return value.replaceAll(/[\\*?]/g, String.raw`\$&`);
}
