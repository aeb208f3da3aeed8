import type { Clock } from "@kip/base";
import type { CloudDriver, LaunchRequest } from "../cloud-driver.ts";
import { cloudOperations, type CloudOperation } from "../operations.ts";
import { wrapOperations, type CloudCall } from "../wrap-operations.ts";
import { judge, type FaultVerdict, type FaultRule } from "./fault-rules.ts";

/** Stores the rules of a cloud for all its handles. */
export interface FaultRuleStore {
  read(): Promise<readonly FaultRule[]>;
  /** Replaces the rules. At any time only one handle of any process does so. */
  update(change: (rules: readonly FaultRule[]) => readonly FaultRule[]): Promise<void>;
}

/** Options of {@link faultyCloud}. */
export interface FaultyCloudOptions {
  readonly rules: FaultRuleStore;
  readonly clock: Clock;
}

/**
 * Wraps a driver so that its calls fail according to the rules. Without rules it behaves like the driver. Members that are not
 * part of the port stay unchanged.
 */
export function faultyCloud<T extends CloudDriver>(driver: T, options: FaultyCloudOptions): T {
  return wrapOperations(
    driver,
    cloudOperations,
    async (operation, call, args) =>
      await callWithFaults(driver, options, operation, { args, call }),
  );
}

async function callWithFaults(
  driver: CloudDriver,
  options: FaultyCloudOptions,
  operation: CloudOperation,
  { args, call }: { readonly args: readonly unknown[]; readonly call: CloudCall },
): Promise<unknown> {
  const asked = operation === "launch" ? (args[0] as LaunchRequest) : undefined; // the parameter of `launch`
  const verdict = await reach(driver, options, operation, asked);
  if (verdict.before) throw verdict.before;
  const signal = args.find((arg) => arg instanceof AbortSignal);
  if (verdict.delayMs > 0) await options.clock.sleep(verdict.delayMs, signal);
  const answer = await call(...args);
  if (verdict.after) throw verdict.after;
  return answer;
}

async function reach(
  driver: CloudDriver,
  { rules, clock }: FaultyCloudOptions,
  operation: CloudOperation,
  asked: LaunchRequest | undefined,
): Promise<FaultVerdict> {
  const known = await rules.read();
  if (known.length === 0) return { rules: known, delayMs: 0 };
  const isNew = asked && !(await driver.list()).some(({ token }) => token === asked.token);
  const facts = {
    operation,
    zone: asked?.zone ?? driver.zone,
    now: clock.now(),
    launch: isNew === true ? asked : undefined,
  };
  const expected = judge(known, facts);
  if (expected.rules === known) return expected;
  // The call uses up a rule, so apply the rules again where no other handle can use up the same rule.
  let verdict = expected;
  await rules.update((current) => {
    verdict = judge(current, facts);
    return verdict.rules;
  });
  return verdict;
}
