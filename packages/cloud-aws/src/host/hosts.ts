import { SerialQueue, untilAborted, type Clock, type Logger } from "@kip/base";
import type { Filter } from "@aws-sdk/client-ec2";
import { CloudError, type DedicatedHost, type DedicatedHosts, type HostRelease } from "@kip/cloud";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { ownTags } from "../tags.ts";
import { allocateRequest, type HostPlace } from "./allocate-request.ts";
import { toHost, type SeenHost } from "./to-host.ts";

/** Options of {@link Hosts}. */
export interface HostsOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly pollMs: number;
  /** Maximum time that responses may lack a new host, milliseconds. */
  readonly consistencyMs: number;
  /**
   * Minimum age of an empty host before it is given back, milliseconds. A launch of any process may be about to use a younger
   * one.
   */
  readonly minAgeMs: number;
}

/** How many hosts one launch tries. Meanwhile other launches may fill a host, or a process may give it back. */
const mostAttempts = 3;
/**
 * Maximum time that a launch waits for a new host to become available, milliseconds. A retry of the launch waits for the same
 * host.
 */
const readyLimitMs = 120_000;
/** More hosts than can have been given back for one Cell, type and zone while EC2 knows their client tokens. */
const mostGenerations = 50;

/** What one launch has tried. */
interface Trial {
  /** Hosts that did not take the launch. */
  readonly failed: Set<string>;
  /** Why the last one did not. */
  error?: unknown;
  hasAllocated: boolean;
}

/**
 * Dedicated hosts of one owner. They only accept targeted launches (no auto-placement). Each operation reads the hosts from
 * EC2, so all processes have the same information. Launches of one type and zone choose their hosts one after the other, so
 * launches at the same moment share a new host.
 *
 * Invariants:
 * - A launch allocates at most one host, and its retry gets the same one while it can be used.
 * - No launch uses a host that this process gives back. Hosts younger than `minAgeMs` are not given back.
 */
export class Hosts implements DedicatedHosts {
  readonly #options: HostsOptions;
  readonly #queue = new SerialQueue();
  /** Number of launches that are under way on a host, by host ID. */
  readonly #coming = new Map<string, number>();
  /** Resolves when EC2 has answered one of these launches. */
  #landed = Promise.withResolvers<void>();
  /** When this process allocated a host, monotonic milliseconds. */
  readonly #allocatedAt = new Map<string, number>();
  /** Hosts that are being given back. */
  readonly #leaving = new Set<string>();
  /** Hosts that can no longer be used. */
  readonly #spent = new Set<string>();

  constructor(options: HostsOptions) {
    this.#options = options;
  }

  async list(): Promise<readonly DedicatedHost[]> {
    return (await this.#describe([])).filter(isKept).map(({ host }) => host);
  }

  /**
   * Launches on a host with room for one more instance of a type. Takes the fullest one, so that other hosts become empty.
   *
   * @throws {CloudError} `CLOUD_NO_CAPACITY` or `CLOUD_QUOTA` if none can be allocated; `CLOUD_UNAVAILABLE` if the host is gone
   * meanwhile, or not ready in two minutes; the launch's errors
   */
  async use<T>(
    place: HostPlace,
    launch: (hostId: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const trial: Trial = { failed: new Set(), hasAllocated: false };
    for (let attempt = 1; ; attempt++) {
      const id = await this.#queue.run(
        async () => await this.#choose(place, trial, signal),
        `${place.instanceType} ${place.zone}`,
        signal,
      );
      try {
        return await this.#launchOn(id, launch, signal);
      } catch (error) {
        if (!isFull(error) && !isLost(error)) throw error;
        trial.error = isLost(error) ? gone(id, error) : error;
        if (attempt === mostAttempts) throw trial.error;
        trial.failed.add(id);
      } finally {
        this.#count(id, -1);
      }
    }
  }

  async releaseEmpty(): Promise<readonly HostRelease[]> {
    const seen = (await this.#describe([])).filter(isKept);
    const empty = seen.filter((each) => this.#isFree(each)).map(({ host }) => host);
    if (empty.length === 0) return [];
    for (const { id } of empty) this.#leaving.add(id);
    try {
      const releases = await this.#release(empty);
      for (const { host, refusal } of releases) {
        if (refusal !== undefined) continue;
        this.#spent.add(host.id);
        this.#allocatedAt.delete(host.id);
      }
      return releases;
    } finally {
      for (const { id } of empty) this.#leaving.delete(id);
    }
  }

  /**
   * Whether a host is not needed. A pending host is kept longer, because a launch may be waiting for it and be repeated
   * meanwhile.
   */
  #isFree({ host, state }: SeenHost): boolean {
    const { minAgeMs } = this.#options;
    const isEmpty = host.instanceIds.length === 0 && (this.#coming.get(host.id) ?? 0) === 0;
    return (
      isEmpty &&
      !this.#leaving.has(host.id) &&
      this.#ageMs(host) >= (state === "pending" ? 5 * minAgeMs : minAgeMs)
    );
  }

  /**
   * Age of a host. For this process' own hosts the monotonic clock counts, too, because EC2's clock may differ from this
   * machine's.
   */
  #ageMs({ id, allocatedAt }: DedicatedHost): number {
    const { clock } = this.#options;
    const told = clock.now() - Date.parse(allocatedAt);
    const own = this.#allocatedAt.get(id);
    return own === undefined ? told : Math.min(told, clock.monotonic() - own);
  }

  /** Launches on a new host, and retries until all of EC2 knows the host. */
  async #launchOn<T>(
    id: string,
    launch: (hostId: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const { clock, pollMs, consistencyMs } = this.#options;
    for (;;) {
      try {
        return await launch(id);
      } catch (error) {
        if (!isLost(error)) throw error;
        const seen = (await this.#describe([], signal)).find(({ host }) => host.id === id);
        const isNew = seen !== undefined && isKept(seen) && this.#ageMs(seen.host) < consistencyMs;
        if (!isNew) throw error;
        await clock.sleep(pollMs, signal);
      }
    }
  }

  /** EC2 keeps a host that has an instance, even if an earlier response showed the host as empty. */
  async #release(hosts: readonly DedicatedHost[]): Promise<readonly HostRelease[]> {
    const { Unsuccessful = [] } = await this.#options.ec2.call(
      "ReleaseHosts",
      { HostIds: hosts.map(({ id }) => id) },
      { purpose: "give back dedicated hosts" },
    );
    const refusals = new Map(Unsuccessful.map((each) => [each.ResourceId, each.Error]));
    return hosts.map((host) => {
      const { Message = "EC2 does not say why", Code = "" } = refusals.get(host.id) ?? {};
      return refusals.has(host.id)
        ? { host, refusal: Code === "" ? Message : `${Message} (${Code})` }
        : { host };
    });
  }

  /** Chooses a host with room, and counts one more launch on it from now on. */
  async #choose(place: HostPlace, trial: Trial, signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted();
    const { instanceType, zone } = place;
    const filters = [
      { Name: "instance-type", Values: [instanceType] },
      { Name: "availability-zone", Values: [zone] },
    ];
    for (;;) {
      const landed = this.#landed.promise;
      const all = await this.#describe(filters, signal);
      const usable = all.filter((each) => this.#isUsable(each, trial));
      const open = usable
        .filter((each) => isOpen(each, place))
        .sort((one, other) => one.room - other.room);
      const host = open.find((each) => each.room > (this.#coming.get(each.host.id) ?? 0))?.host;
      if (host) {
        this.#count(host.id, 1);
        return host.id;
      }
      const pending = usable.find((each) => each.state === "pending" && isFor(each, place))?.host;
      if (pending || open.length === 0) {
        const id = pending?.id ?? (await this.#allocate(place, trial, { all, signal }));
        const isWaitedFor = pending !== undefined || !usable.some(({ host }) => host.id === id);
        if (isWaitedFor) await this.#await(id, place, signal);
        else this.#count(id, 1);
        return id;
      }
      // EC2 may already count a launch that is under way. A new host costs money, so this waits until EC2 has answered.
      await untilAborted(landed, signal);
    }
  }

  #isUsable({ host: { id } }: SeenHost, { failed }: Trial): boolean {
    return !failed.has(id) && !this.#spent.has(id) && !this.#leaving.has(id);
  }

  /** Counts launches that are under way on a host. */
  #count(id: string, more: 1 | -1): void {
    const coming = (this.#coming.get(id) ?? 0) + more;
    if (coming > 0) this.#coming.set(id, coming);
    else this.#coming.delete(id);
    if (more > 0) return;
    this.#landed.resolve();
    this.#landed = Promise.withResolvers();
  }

  /**
   * Allocates a host. EC2 answers a repeated call with the first call's host, whose response may have been lost. That host is
   * used even if it is full, because the launch may already be on it. If the host can no longer be used, the next generation
   * allocates another.
   */
  async #allocate(
    place: HostPlace,
    trial: Trial,
    {
      all,
      signal,
    }: { readonly all: readonly SeenHost[]; readonly signal?: AbortSignal | undefined },
  ): Promise<string> {
    if (trial.hasAllocated) throw trial.error;
    const { ec2, owner, clock, logger } = this.#options;
    const { instanceType, zone } = place;
    const usable = all.filter((each) => this.#isUsable(each, trial) && isFor(each, place));
    const known = new Set([...all.map(({ host }) => host.id), ...trial.failed, ...this.#spent]);
    for (let generation = 0; generation < mostGenerations; generation++) {
      const { HostIds: [id] = [] } = await ec2.call(
        "AllocateHosts",
        allocateRequest(owner, place, generation),
        {
          purpose: "allocate a dedicated host",
          place: { instanceType, zone, launchType: "dedicated" },
          signal,
        },
      );
      if (id === undefined)
        throw new CloudError(
          "CLOUD_UNKNOWN",
          "Cannot allocate a dedicated host: the answer has none",
        );
      if (usable.some(({ host, state }) => host.id === id && state === "available")) return id;
      if (known.has(id)) continue;
      trial.hasAllocated = true;
      if (!this.#allocatedAt.has(id)) this.#allocatedAt.set(id, clock.monotonic());
      logger.info("Allocated a dedicated host", { host: id, instanceType, zone });
      return id;
    }
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot allocate a dedicated host: ${mostGenerations} hosts of one cell are gone`,
    );
  }

  /** Waits until a new host is available. The launch counts on it from now on. */
  async #await(id: string, place: HostPlace, signal?: AbortSignal): Promise<void> {
    this.#count(id, 1);
    try {
      await this.#untilReady(id, place, signal);
    } catch (error) {
      this.#count(id, -1);
      throw error;
    }
  }

  /**
   * EC2 shows a new host after a moment. If it does not show the host after `consistencyMs`, or stops showing it, the host is
   * gone.
   */
  async #untilReady(id: string, place: HostPlace, signal?: AbortSignal): Promise<void> {
    const { clock, pollMs, consistencyMs } = this.#options;
    const began = clock.monotonic();
    for (let wasSeen = false; ;) {
      const seen = (await this.#describe([], signal)).find(({ host }) => host.id === id);
      if (seen && isOpen(seen, place)) return;
      const waitedMs = clock.monotonic() - began;
      const isHopeful = seen && isFor(seen, place) && ["pending", "available"].includes(seen.state);
      if (seen ? !isHopeful : wasSeen || waitedMs > consistencyMs) {
        this.#spent.add(id);
        throw gone(id);
      }
      wasSeen ||= seen !== undefined;
      if (waitedMs > readyLimitMs)
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          `Cannot start an instance: dedicated host "${id}" is new and takes no instance of ${place.instanceType} yet`,
        );
      await clock.sleep(pollMs, signal);
    }
  }

  /**
   * Includes released hosts, while EC2 shows them. EC2 can only filter hosts by the keys of their tags, so the value is
   * compared here.
   */
  async #describe(filters: readonly Filter[], signal?: AbortSignal): Promise<readonly SeenHost[]> {
    const { ec2, owner } = this.#options;
    const Filter = [{ Name: "tag-key", Values: [ownTags.owner] }, ...filters];
    const pages = await allPages(
      ec2,
      "DescribeHosts",
      { Filter, MaxResults: 500 },
      { purpose: "list dedicated hosts", signal },
    );
    return pages
      .flatMap(({ Hosts = [] }) => Hosts)
      .flatMap((each) => toHost(each) ?? [])
      .filter(({ host }) => host.owner === owner);
  }
}

/** Whether a host has not been given back. */
function isKept({ state }: SeenHost): boolean {
  return !state.startsWith("released");
}

/** Whether a host is for instances of this type, now or when it is ready. */
function isFor({ host }: SeenHost, { instanceType, zone }: HostPlace): boolean {
  return host.instanceType === instanceType && host.zone === zone;
}

/** Whether a host takes an instance of this type now. */
function isOpen(seen: SeenHost, place: HostPlace): boolean {
  return isFor(seen, place) && seen.state === "available" && seen.room > 0;
}

function isFull(error: unknown): boolean {
  return awsCodeOf(error) === "InsufficientCapacityOnHost";
}

/**
 * Whether the error means that the host does not exist, not yet or no longer. `InvalidHostConfiguration` is not included,
 * because no other host would do.
 */
function isLost(error: unknown): boolean {
  return /^InvalidHost(ID|State)/i.test(awsCodeOf(error));
}

/** A failure that a retry can fix, unlike EC2's `NotFound`. */
function gone(id: string, cause?: unknown): CloudError {
  return new CloudError(
    "CLOUD_UNAVAILABLE",
    `Cannot start an instance: dedicated host "${id}" is gone, or takes no instances`,
    { cause },
  );
}
