import type { Filter } from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { Batch } from "../batch.ts";
import { eachPage } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { ownTags } from "../tags.ts";
import { instancesOf, type SeenInstance } from "./to-instance.ts";

/** Options of {@link Instances}. */
export interface InstancesOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly clock: Clock;
  /** Maximum time that EC2's responses may lack an instance that EC2 has started, milliseconds. */
  readonly consistencyMs: number;
  readonly batchMs: number;
  /** Delay before looking again for an instance that this process does not know, milliseconds. */
  readonly pollMs: number;
}

/** Maximum number of values in one filter. */
const filterLimit = 200;

/** An instance that this process knows and that has not ended. */
interface Known {
  /** From the launch, or from the latest response that had it. */
  readonly seen: SeenInstance;
  /** Since when responses lack it, monotonic milliseconds. Undefined if the latest response had it. */
  missingSince?: number | undefined;
  /** Whether no response has had it since its launch. */
  readonly isNew: boolean;
  /** Whether this process has asked for its end, or waits for it. */
  isEndExpected: boolean;
}

/**
 * The owner's instances, as EC2 describes them. EC2's responses lag, and a later response may lack an instance that an earlier
 * one had. So this process keeps the last state of an instance that it knows, until all responses have lacked the instance for
 * `consistencyMs`.
 */
export class Instances {
  readonly #options: InstancesOptions;
  /** Also shows that an ID is this owner's, which never changes. */
  readonly #alive = new Map<string, Known>();
  readonly #byId: Batch<string, SeenInstance | undefined>;
  /** Called once for each instance that this process knew and that ended unexpectedly. */
  onEnded: (instance: Instance) => void = () => {};
  /** Called for each running instance with routes, with each response that has it. */
  onRouted: (seen: SeenInstance) => void = () => {};
  /** Called for each instance that has ended, expected or not. */
  onGone: (id: string) => void = () => {};
  /** Called for each instance that EC2 will take back, and the time, with each response that has it, before it ends. */
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

  /** An instance, also an ended one while EC2 knows it. Calls at the same time share one call of EC2. */
  async get(id: string): Promise<SeenInstance | undefined> {
    return await this.#byId.get(id);
  }

  /** The instance, unless it does not exist or has ended. */
  async describe(id: string): Promise<Instance | undefined> {
    const seen = (await this.get(id)) ?? (await this.#lookAgain(id));
    return seen?.instance.state === "terminated" ? undefined : seen?.instance;
  }

  /** All instances that EC2 still knows, including ended ones. */
  async all(): Promise<readonly SeenInstance[]> {
    const found = await this.#describe([], "list");
    const ids = new Set(found.map(({ instance }) => instance.id));
    const missing = [...this.#alive.keys()].flatMap((id) =>
      ids.has(id) ? [] : (this.#missing(id) ?? []),
    );
    return [...found, ...missing];
  }

  /** Instances of one token, including ended ones. */
  async ofToken(token: string, signal?: AbortSignal): Promise<readonly SeenInstance[]> {
    return await this.#describe(
      [{ Name: `tag:${ownTags.token}`, Values: [literal(token)] }],
      "look for",
      signal,
    );
  }

  /** Whether the instance was pending when this process last saw it. Does not call EC2. */
  wasPending(id: string): boolean {
    return this.#alive.get(id)?.seen.instance.state === "pending";
  }

  /** Whether the instance has routes, as last seen by this process. Does not call EC2. */
  hasRoutes(id: string): boolean {
    return (this.#alive.get(id)?.seen.routes.length ?? 0) > 0;
  }

  /** The interface of the instance's routes, as last seen by this process. Does not call EC2. */
  routedInterfaceOf(id: string): string | undefined {
    return this.#alive.get(id)?.seen.routedInterface;
  }

  /** Address of the instance's agent, as last seen by this process. Does not call EC2. */
  managementIpOf(id: string): string | undefined {
    return this.#alive.get(id)?.seen.instance.managementIp;
  }

  /** Whether this process has asked for the instance's end, or waits for it, and has not seen it yet. Does not call EC2. */
  isEnding(id: string): boolean {
    return this.#alive.get(id)?.isEndExpected === true;
  }

  /** Whether the latest response lacked the instance, so that its last seen state counts. Does not call EC2. */
  isMissing(id: string): boolean {
    return this.#alive.get(id)?.missingSince !== undefined;
  }

  /** Records the response to a launch. */
  launched(seen: SeenInstance): void {
    const missingSince = this.#options.clock.monotonic();
    this.#alive.set(seen.instance.id, { seen, missingSince, isNew: true, isEndExpected: false });
  }

  /** Records that this process has asked for the instance's end, or waits for it. */
  expectEnd(id: string): void {
    const known = this.#alive.get(id);
    if (known) known.isEndExpected = true;
  }

  /** Whether an ID is known to be this owner's. Does not call EC2. */
  isOwn(id: string): boolean {
    return this.#alive.has(id);
  }

  /** Whether EC2 may not know an instance yet that this process has launched. */
  isNew(id: string): boolean {
    return this.#alive.get(id)?.isNew === true && this.#missing(id) !== undefined;
  }

  /** The last state of an instance that a response lacks. Undefined if that proves that the instance has ended. */
  #missing(id: string): SeenInstance | undefined {
    const known = this.#alive.get(id);
    if (!known) return undefined;
    const now = this.#options.clock.monotonic();
    known.missingSince ??= now;
    if (now - known.missingSince < this.#options.consistencyMs) return known.seen;
    this.#ended(known, known.seen, "EC2 no longer knows the instance");
    return undefined;
  }

  /** A single response does not prove that an instance does not exist, because another process may just have launched it. */
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
    // A page of a thousand instances takes several MiB until it is parsed.
    for await (const { Reservations } of pages)
      found.push(...instancesOf(Reservations).map((each) => this.#withKnownIpv6(each)));
    for (const each of found) this.#note(each);
    return found;
  }

  /** Keeps an instance's first IPv6 addresses, because a later address of the interface may sort before them. */
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
    // An instance that is shutting down may still run. It has ended when it is terminated.
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

/** Escapes a literal value of a filter, because EC2 treats * and ? as wildcards. */
function literal(value: string): string {
  return value.replaceAll(/[\\*?]/g, String.raw`\$&`);
}
