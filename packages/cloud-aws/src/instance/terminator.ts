import type { Clock } from "@kip/base";
import { CloudError, type CloudErrorCode } from "@kip/cloud";
import { Batch } from "../batch.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { Instances } from "./instances.ts";

/** Options of {@link Terminator}. */
export interface TerminatorOptions {
  readonly ec2: Ec2;
  readonly instances: Instances;
  /** Removes the routes of an instance before it ends. Never throws. */
  readonly release: (id: string) => Promise<void>;
  readonly clock: Clock;
  readonly batchMs: number;
}

/** EC2 accepts up to 1000 and advises smaller calls. */
const mostIds = 100;

/** Error codes that one instance of the call may have caused. */
const codesOfOne: readonly CloudErrorCode[] = [
  "CLOUD_NOT_FOUND",
  "CLOUD_INVALID_REQUEST",
  "CLOUD_UNKNOWN",
];

/** Why each of these instances could not be ended. Has no entry for those that were ended. */
type Failures = ReadonlyMap<string, unknown>;

/** Ends instances. Calls at about the same time share one call of EC2. */
export class Terminator {
  readonly #options: TerminatorOptions;
  readonly #batch: Batch<string, true>;
  /** Instances that EC2 did not find when their end was requested. */
  readonly #missed = new Set<string>();

  constructor(options: TerminatorOptions) {
    this.#options = options;
    const { clock, batchMs } = options;
    this.#batch = new Batch({
      clock,
      windowMs: batchMs,
      limit: mostIds,
      run: async (ids) => {
        const failures = await this.#terminate(ids);
        return (id) => {
          if (failures.has(id)) throw failures.get(id);
          return true;
        };
      },
    });
  }

  /** Ends an instance of this owner. Does nothing for another owner's instance, or if it does not exist. */
  async terminate(id: string): Promise<void> {
    const { instances } = this.#options;
    if (!instances.isOwn(id) && (await instances.describe(id)) === undefined) {
      this.#missed.add(id);
      return;
    }
    this.#missed.delete(id);
    instances.expectEnd(id);
    await this.#options.release(id);
    await this.#batch.get(id);
  }

  /**
   * Whether EC2 did not find an instance when its end was last requested. If the instance exists after all, nothing ends it.
   */
  hasMissed(id: string): boolean {
    return this.#missed.has(id);
  }

  /** EC2 ends none of a call's instances if it cannot end one of them. Then the others are sent again without it. */
  async #terminate(ids: readonly string[]): Promise<Failures> {
    try {
      await this.#send(ids);
      return new Map();
    } catch (error) {
      if (ids.length === 1) return await this.#afterFailure(ids[0] ?? "", error);
      const parts = partsOf(ids, error);
      if (parts.length === 0) return new Map(ids.map((id) => [id, error]));
      const failures = await Promise.all(parts.map(async (part) => await this.#terminate(part)));
      return new Map(failures.flatMap((each) => [...each]));
    }
  }

  async #afterFailure(id: string, first: unknown): Promise<Failures> {
    const { instances, clock } = this.#options;
    let error = first;
    for (let pauseMs = 100; ; pauseMs = Math.min(2 * pauseMs, 5000)) {
      if (!CloudError.is(error, "CLOUD_NOT_FOUND")) return new Map([[id, error]]);
      if (!instances.isNew(id)) {
        this.#missed.add(id);
        return new Map();
      }
      // EC2 has launched it, and some of EC2 does not know it yet.
      await clock.sleep(pauseMs);
      try {
        await this.#send([id]);
        return new Map();
      } catch (again) {
        error = again;
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

/** Splits a call's instances into parts to send separately. Empty if the error was not caused by one of them. */
function partsOf(ids: readonly string[], error: unknown): readonly (readonly string[])[] {
  const words = new Set(String(error).match(/\bi-[\da-z]+/g));
  const named = ids.filter((id) => words.has(id));
  const others = ids.filter((id) => !words.has(id));
  if (named.length > 0) return [...named.map((id) => [id]), ...(others.length > 0 ? [others] : [])];
  if (!CloudError.is(error, ...codesOfOne)) return [];
  const middle = Math.ceil(ids.length / 2);
  return [ids.slice(0, middle), ids.slice(middle)];
}
