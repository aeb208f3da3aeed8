import type { Clock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { Batch } from "../batch.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { Instances } from "./instances.ts";

/** What {@link Terminator} works with. */
export interface TerminatorOptions {
  readonly ec2: Ec2;
  readonly instances: Instances;
  readonly clock: Clock;
  readonly batchMs: number;
}

/** EC2 takes up to 1000 and advises smaller calls. */
const mostIds = 100;

/** Ends instances; those that are ended at about the same time by one call. */
export class Terminator {
  readonly #options: TerminatorOptions;
  readonly #batch: Batch<string, true>;

  constructor(options: TerminatorOptions) {
    this.#options = options;
    const { clock, batchMs } = options;
    this.#batch = new Batch({
      clock,
      windowMs: batchMs,
      limit: mostIds,
      run: async (ids) => {
        await this.#terminate(ids);
        return () => true;
      },
    });
  }

  /** Ends an instance of this owner; another one, and one that is not there, is left alone. */
  async terminate(id: string): Promise<void> {
    const { instances } = this.#options;
    if (instances.isOwn(id) || (await instances.describe(id)) !== undefined)
      await this.#batch.get(id);
  }

  /** EC2 ends none of a call if it does not know one of them. */
  async #terminate(ids: readonly string[]): Promise<void> {
    try {
      await this.#send(ids);
    } catch (error) {
      if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error;
      for (const id of ids) await this.#terminateOne(id);
    }
  }

  async #terminateOne(id: string): Promise<void> {
    const { instances, clock } = this.#options;
    for (let pauseMs = 100; ; pauseMs = Math.min(2 * pauseMs, 5000)) {
      try {
        await this.#send([id]);
        return;
      } catch (error) {
        if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error;
        if (!instances.isNew(id)) return;
        // EC2 has launched it, and does not know it everywhere yet.
        await clock.sleep(pauseMs);
      }
    }
  }

  async #send(ids: readonly string[]): Promise<void> {
    await this.#options.ec2.call(
      "TerminateInstances",
      { InstanceIds: [...ids] },
      { purpose: "end instances" },
    );
  }
}
