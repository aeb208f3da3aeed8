import { CloudError, wrapOperations, type CloudDriver, type LaunchRequest } from "@kip/cloud";

/** The account's quotas: the most instances of each launch type. */
export class Quotas {
  readonly #owner: CloudDriver;
  readonly #most = new Map<string, number>();
  /** Launch types of the instances that have not ended, by token. */
  readonly #held = new Map<string, string>();

  /** @param owner a driver that sees each end of an instance */
  constructor(owner: CloudDriver) {
    this.#owner = owner;
  }

  /** Sets the quota of a launch type, or of each one. */
  set(launchType: string, most: number): void {
    this.#most.set(launchType, most);
  }

  /** Removes all quotas. */
  clear(): void {
    this.#most.clear();
  }

  /** A driver that refuses launches above the quotas. */
  keptBy(driver: CloudDriver): CloudDriver {
    return wrapOperations(driver, ["launch"], async (_operation, call, args) => {
      const { token, launchType } = args[0] as LaunchRequest;
      const isNew = !this.#held.has(token);
      if (isNew) this.#take(token, launchType);
      try {
        const instance = (await call(...args)) as { readonly id: string };
        if (isNew) void this.#freeAfter(token, instance.id);
        return instance;
      } catch (error) {
        if (isNew) this.#held.delete(token);
        throw error;
      }
    });
  }

  #take(token: string, launchType: string): void {
    const most = this.#most.get(launchType) ?? Infinity;
    const present = [...this.#held.values()].filter((each) => each === launchType).length;
    if (present >= most)
      throw new CloudError(
        "CLOUD_QUOTA",
        `The limit of ${most} ${launchType} instances is reached`,
      );
    this.#held.set(token, launchType);
  }

  async #freeAfter(token: string, id: string): Promise<void> {
    await this.#owner.waitForTerminated(id).catch(() => {}); // the world ends
    this.#held.delete(token);
  }
}
