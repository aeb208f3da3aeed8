import { randomUUID } from "node:crypto";
import type { Filter } from "@aws-sdk/client-ec2";
import { SerialQueue, untilAborted, type Clock, type Logger } from "@kip/base";
import { CloudError, type DedicatedHost, type DedicatedHosts, type HostRelease } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { ownTags } from "../tags.ts";
import { toHost, type SeenHost } from "./to-host.ts";

/** What {@link Hosts} works with. */
export interface HostsOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly pollMs: number;
}

/** What a launch needs of a host. */
export interface HostPlace {
  readonly instanceType: string;
  readonly zone: string;
  /** For people. @default the owner */
  readonly nametag?: string | undefined;
}

/** How many hosts one launch tries: others may fill one, or give it back, meanwhile. */
const mostAttempts = 3;
/** Longest that a new host may take until it can have instances, milliseconds. */
const readyLimitMs = 30_000;

/**
 * Dedicated hosts of one owner. They take targeted launches alone (no auto-placement), and what a host may do is read from EC2 each
 * time, so all processes know the same. Choices and releases wait for each other: launches at one moment share a new host, and
 * none goes to a host that is given back.
 */
export class Hosts implements DedicatedHosts {
  readonly #options: HostsOptions;
  readonly #queue = new SerialQueue();
  /** Launches that are on their way to a host, by its ID. */
  readonly #coming = new Map<string, number>();
  /** Resolves when one of them has an answer. */
  #landed = Promise.withResolvers<void>();

  constructor(options: HostsOptions) {
    this.#options = options;
  }

  async list(): Promise<readonly DedicatedHost[]> {
    return (await this.#describe([])).map(({ host }) => host);
  }

  /**
   * Launches on a host that has room for one more instance of a type. The fullest one is taken, so that others empty.
   *
   * @throws {CloudError} `CLOUD_NO_CAPACITY` or `CLOUD_QUOTA` if none can be allocated; what the launch throws
   */
  async use<T>(
    place: HostPlace,
    launch: (hostId: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const failed = new Set<string>();
    for (let attempt = 1; ; attempt++) {
      const id = await this.#queue.run(
        async () => await this.#choose(place, failed, signal),
        "",
        signal,
      );
      try {
        return await launch(id);
      } catch (error) {
        if (attempt === mostAttempts || !isOfHost(error)) throw error;
        failed.add(id);
      } finally {
        this.#count(id, -1);
      }
    }
  }

  async releaseEmpty(): Promise<readonly HostRelease[]> {
    return await this.#queue.run(async () => {
      const empty = (await this.list()).filter(
        ({ id, instanceIds }) => instanceIds.length === 0 && (this.#coming.get(id) ?? 0) === 0,
      );
      return empty.length === 0 ? [] : await this.#release(empty);
    });
  }

  /** EC2 keeps a host that has an instance, whatever the answer before said. */
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

  /** A host with room, on which one more launch is counted from now on. */
  async #choose(
    place: HostPlace,
    failed: ReadonlySet<string>,
    signal?: AbortSignal,
  ): Promise<string> {
    signal?.throwIfAborted();
    const { instanceType, zone } = place;
    const filters = [
      { Name: "instance-type", Values: [instanceType] },
      { Name: "availability-zone", Values: [zone] },
    ];
    for (;;) {
      const landed = this.#landed.promise;
      const seen = (await this.#describe(filters, signal))
        .filter((each) => isOpen(each, place) && !failed.has(each.host.id))
        .sort((one, other) => one.room - other.room);
      const host = seen.find((each) => each.room > (this.#coming.get(each.host.id) ?? 0))?.host;
      if (host || seen.length === 0) {
        const id = host?.id ?? (await this.#allocate(place, signal));
        this.#count(id, 1);
        return id;
      }
      // EC2 may count a launch that is on its way already, and no host is paid for on a guess: it will be known in a moment.
      await untilAborted(landed, signal);
    }
  }

  /** Counts launches that are on their way to a host. */
  #count(id: string, more: 1 | -1): void {
    const coming = (this.#coming.get(id) ?? 0) + more;
    if (coming > 0) this.#coming.set(id, coming);
    else this.#coming.delete(id);
    if (more > 0) return;
    this.#landed.resolve();
    this.#landed = Promise.withResolvers();
  }

  /** Allocates a host and waits until it can have instances. One that a failure leaves is found by its tag later. */
  async #allocate(place: HostPlace, signal?: AbortSignal): Promise<string> {
    const { ec2, owner, logger } = this.#options;
    const { instanceType, zone, nametag = owner } = place;
    const { HostIds: [id] = [] } = await ec2.call(
      "AllocateHosts",
      {
        AvailabilityZone: zone,
        InstanceType: instanceType,
        Quantity: 1,
        AutoPlacement: "off",
        ClientToken: randomUUID(),
        TagSpecifications: [
          {
            ResourceType: "dedicated-host",
            Tags: [
              { Key: ownTags.name, Value: `Kip Host ${nametag}`.slice(0, 255) },
              { Key: ownTags.owner, Value: owner },
              { Key: ownTags.nametag, Value: nametag },
            ],
          },
        ],
      },
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
    logger.info("Allocated a dedicated host", { host: id, instanceType, zone });
    await this.#untilReady(id, place, signal);
    return id;
  }

  async #untilReady(id: string, place: HostPlace, signal?: AbortSignal): Promise<void> {
    const { clock, pollMs } = this.#options;
    const began = clock.monotonic();
    for (;;) {
      const seen = (await this.#describe([], signal)).find(({ host }) => host.id === id);
      if (seen && isOpen(seen, place)) return;
      if (clock.monotonic() - began > readyLimitMs)
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          `Cannot start an instance: dedicated host "${id}" is new and takes no instance of ${place.instanceType} yet`,
        );
      await clock.sleep(pollMs, signal);
    }
  }

  /** EC2 filters hosts by the keys of their tags alone; the value is compared here. */
  async #describe(filters: readonly Filter[], signal?: AbortSignal): Promise<readonly SeenHost[]> {
    const { ec2, owner } = this.#options;
    const found: SeenHost[] = [];
    let NextToken: string | undefined;
    do {
      const answer = await ec2.call(
        "DescribeHosts",
        {
          Filter: [{ Name: "tag-key", Values: [ownTags.owner] }, ...filters],
          MaxResults: 500,
          ...(NextToken !== undefined && { NextToken }),
        },
        { purpose: "list dedicated hosts", signal },
      );
      found.push(...(answer.Hosts ?? []).flatMap((each) => toHost(each) ?? []));
      NextToken = answer.NextToken === "" ? undefined : answer.NextToken;
    } while (NextToken !== undefined);
    return found.filter(({ host, state }) => host.owner === owner && !state.startsWith("released"));
  }
}

/** Whether a host takes an instance of this type now. */
function isOpen({ host, state, room }: SeenHost, { instanceType, zone }: HostPlace): boolean {
  const fits = host.instanceType === instanceType && host.zone === zone;
  return fits && state === "available" && room > 0;
}

/** Whether another host may do: this one is full, or it is no longer there. */
function isOfHost(error: unknown): boolean {
  const code = awsCodeOf(error);
  return code === "InsufficientCapacityOnHost" || /^InvalidHost/i.test(code);
}
