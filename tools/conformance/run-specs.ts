import { inParallel } from "@kip/base";
import type { Plan } from "./plan.ts";
import type { Result } from "./results.ts";
import type { Spec } from "./specs.ts";

/** How {@link runSpecs} runs them. */
export interface RunSpecsOptions {
  /** How many run beside each other, from 1. */
  readonly workers: number;
  readonly run: (spec: Spec) => Promise<Result>;
  /** Called when a spec has ended, before the worker begins another. */
  readonly onResult: (result: Result, finished: number) => Promise<void>;
}

/** Runs the parallel specs of a plan by several workers, then the serial ones one at a time. */
export async function runSpecs(plan: Plan, options: RunSpecsOptions): Promise<void> {
  let { finished } = plan;
  const work = async (spec: Spec): Promise<void> => {
    const result = await options.run(spec);
    await options.onResult(result, ++finished);
  };
  await inParallel(plan.parallel, options.workers, work);
  await inParallel(plan.serial, 1, work);
}
