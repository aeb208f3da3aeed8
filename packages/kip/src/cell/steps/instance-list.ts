import type { CloudDriver, Instance } from "@kip/cloud";

/**
 * Lists the cloud's instances for many cells that look up theirs at about the same time, as after a start of kip. Each caller
 * gets a list that was requested after its call. All calls during one request share the next one.
 */
export class InstanceList {
  readonly #driver: Pick<CloudDriver, "list">;
  #underWay: Promise<unknown> = Promise.resolve();
  #next: Promise<readonly Instance[]> | undefined;

  constructor({ driver }: { readonly driver: Pick<CloudDriver, "list"> }) {
    this.#driver = driver;
  }

  /** @throws {CloudError} like the driver's list */
  async get(): Promise<readonly Instance[]> {
    this.#next ??= this.#askNext();
    return await this.#next;
  }

  async #askNext(): Promise<readonly Instance[]> {
    await this.#underWay;
    this.#next = undefined;
    const list = this.#driver.list();
    this.#underWay = list.catch(() => {}); // the callers handle it
    return await list;
  }
}
