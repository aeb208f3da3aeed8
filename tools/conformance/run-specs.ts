import { inParallel } from "@kip/base";
import type { Plan } from "./plan.ts";
import type { Result } from "./results.ts";
import type { Spec } from "./specs.ts";

/** Options of {@link runSpecs}. */
export interface RunSpecsOptions {
  /** How many specs run in parallel, 1 or more. */
  readonly workers: number;
  readonly run: (spec: Spec) => Promise<Result>;
  /** Called when a spec has ended, before its worker starts another one. */
  readonly onResult: (result: Result, finished: number) => Promise<void>;
}

/** Runs the parallel specs of a plan with several workers, then the serial ones one at a time. */
export async function runSpecs(plan: Plan, options: RunSpecsOptions): Promise<void> {
  let { finished } = plan;
  const work = async (spec: Spec): Promise<void> => {
    const result = await options.run(spec);
    await options.onResult(result, ++finished);
  };
  await inParallel(plan.parallel, options.workers, work);
  await inParallel(plan.serial, 1, work);
}
