import type { Clock, Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { lookAtSubnets, type CellSubnet } from "./place.ts";

/** Options of {@link Subnets}. */
export interface SubnetsOptions {
  readonly ec2: Ec2;
  /** At least one; the preferred zone first. */
  readonly subnets: readonly CellSubnet[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How long the number of free addresses is cached, milliseconds. */
const freshMs = 60_000;

/** The cells' subnets by zone. */
export class Subnets {
  readonly #options: SubnetsOptions;
  #subnets: readonly CellSubnet[];
  #lookedAt: number;
  #looking: Promise<void> | undefined;

  constructor(options: SubnetsOptions) {
    this.#options = options;
    this.#subnets = options.subnets;
    this.#lookedAt = options.clock.monotonic();
  }

  /** The preferred zone first. */
  get zones(): readonly string[] {
    return [...new Set(this.#subnets.map(({ zone }) => zone))];
  }

  /**
   * The subnets of a zone, those with the most free addresses first. Asks EC2 for these at most once a minute, while there are
   * launches in a zone with several subnets.
   *
   * @param zone @default the preferred one
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` for a zone without a subnet
   */
  async inZone(zone: string = this.zones[0] ?? ""): Promise<readonly CellSubnet[]> {
    const [first, ...more] = this.#ofZone(zone);
    if (!first)
      throw new CloudError(
        "CLOUD_INVALID_REQUEST",
        `Cannot start an instance in zone "${zone}": the cells have no subnet there`,
        { remedy: `Use ${this.zones.join(" or ")}, or add a subnet to cloud.aws.subnetIDs` },
      );
    if (more.length === 0) return [first];
    await this.#refresh();
    return this.#ofZone(zone).toSorted((a, b) => b.freeAddresses - a.freeAddresses);
  }

  #ofZone(zone: string): readonly CellSubnet[] {
    return this.#subnets.filter((each) => each.zone === zone);
  }

  /** If EC2 does not answer, the known numbers count. */
  async #refresh(): Promise<void> {
    const { ec2, clock, logger } = this.#options;
    if (clock.monotonic() - this.#lookedAt < freshMs) return;
    this.#looking ??= lookAtSubnets(ec2, this.#subnets)
      .then((subnets) => void (this.#subnets = subnets))
      .catch((err: unknown) => logger.warn("Could not look at the cells' subnets", { err }))
      .finally(() => {
        this.#lookedAt = clock.monotonic();
        this.#looking = undefined;
      });
    await this.#looking;
  }
}
