import type { Clock } from "@kip/base";
import type { CloudDriver, LaunchRequest } from "../cloud-driver.ts";
import { judge, type AdverseVerdict, type AdversityRule } from "./adversity-rules.ts";
import { cloudOperations, type CloudOperation } from "./cloud-adversity.ts";

/** Where the rules of a cloud are, shared by all handles on it. */
export interface AdversityRuleStore {
  read(): Promise<readonly AdversityRule[]>;
  /** Replaces the rules, alone among all handles in all processes. */
  update(change: (rules: readonly AdversityRule[]) => readonly AdversityRule[]): Promise<void>;
}

/** What {@link adverseCloud} works with. */
export interface AdverseCloudOptions {
  readonly rules: AdversityRuleStore;
  readonly clock: Clock;
}

type Call = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * A driver whose calls go wrong as the rules say; without rules it does what the driver does. What the
 * driver has besides the port stays as it is.
 */
export function adverseCloud<T extends CloudDriver>(driver: T, options: AdverseCloudOptions): T {
  const wrapped = new Map<string, Call>();
  for (const operation of cloudOperations) {
    const call: Call = driver[operation].bind(driver) as Call; // each operation is a method of the port
    wrapped.set(
      operation,
      async (...args) => await adverseCall(driver, options, operation, { args, call }),
    );
  }
  return new Proxy(driver, {
    get: (target, property) => {
      const operation = typeof property === "string" ? wrapped.get(property) : undefined;
      if (operation) return operation;
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      // Called on the object itself, whose private fields no proxy has; not bound, as V8 refuses to dispose by a bound function.
      return (...args: readonly unknown[]): unknown => Reflect.apply(value, target, args);
    },
  });
}

async function adverseCall(
  driver: CloudDriver,
  options: AdverseCloudOptions,
  operation: CloudOperation,
  { args, call }: { readonly args: readonly unknown[]; readonly call: Call },
): Promise<unknown> {
  const asked = operation === "launch" ? (args[0] as LaunchRequest) : undefined; // its parameter
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
  { rules, clock }: AdverseCloudOptions,
  operation: CloudOperation,
  asked: LaunchRequest | undefined,
): Promise<AdverseVerdict> {
  const known = await rules.read();
  if (known.length === 0) return { rules: known, delayMs: 0 };
  const isNew = asked && !(await driver.list()).some(({ token }) => token === asked.token);
  const facts = {
    operation,
    zone: driver.zone,
    now: clock.now(),
    ...(isNew === true && { launch: asked }),
  };
  const expected = judge(known, facts);
  if (expected.rules === known) return expected;
  // It uses up a rule: judged again where no other handle can use up the same.
  let verdict = expected;
  await rules.update((current) => {
    verdict = judge(current, facts);
    return verdict.rules;
  });
  return verdict;
}
