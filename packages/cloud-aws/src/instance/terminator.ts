import type { Clock } from "@kip/base";
import { CloudError, type CloudErrorCode } from "@kip/cloud";
import { Batch } from "../batch.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { Instances } from "./instances.ts";

/** What {@link Terminator} works with. */
export interface TerminatorOptions {
  readonly ec2: Ec2;
  readonly instances: Instances;
  /** Removes what leads to an instance, before it ends. Never throws. */
  readonly release: (id: string) => Promise<void>;
  readonly clock: Clock;
  readonly batchMs: number;
}

/** EC2 takes up to 1000 and advises smaller calls. */
const mostIds = 100;

/** Codes of answers that may be because of one instance of the call. */
const codesOfOne: readonly CloudErrorCode[] = [
  "CLOUD_NOT_FOUND",
  "CLOUD_INVALID_REQUEST",
  "CLOUD_UNKNOWN",
];

/** Why each of these instances could not be ended; what has ended is not in it. */
type Failures = ReadonlyMap<string, unknown>;

/** Ends instances; those that are ended at about the same time by one call. */
export class Terminator {
  readonly #options: TerminatorOptions;
  readonly #batch: Batch<string, true>;
  /** Instances whose end was asked for and that EC2 did not find then. */
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

  /** Ends an instance of this owner; another one, and one that is not there, is left alone. */
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

  /** Whether EC2 did not find an instance when its end was last asked for: nothing ends it then, should it exist. */
  hasMissed(id: string): boolean {
    return this.#missed.has(id);
  }

  /** EC2 ends none of a call if it cannot end one of them: the others are then asked for without it. */
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
      // EC2 has launched it, and does not know it everywhere yet.
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

/** The instances of a call by what has to be asked for on its own; none if the answer is not because of one of them. */
function partsOf(ids: readonly string[], error: unknown): readonly (readonly string[])[] {
  const words = new Set(String(error).match(/\bi-[\da-z]+/g));
  const named = ids.filter((id) => words.has(id));
  const others = ids.filter((id) => !words.has(id));
  if (named.length > 0) return [...named.map((id) => [id]), ...(others.length > 0 ? [others] : [])];
  if (!CloudError.is(error, ...codesOfOne)) return [];
  const middle = Math.ceil(ids.length / 2);
  return [ids.slice(0, middle), ids.slice(middle)];
}
