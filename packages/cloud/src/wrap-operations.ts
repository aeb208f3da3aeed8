import type { CloudDriver } from "./cloud-driver.ts";
import type { CloudOperation } from "./operations.ts";

/** A call of one of a driver's operations. */
export type CloudCall = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * Wraps a driver so that the given operations go through `around`, which calls the original. All other members stay unchanged.
 */
export function wrapOperations<T extends CloudDriver>(
  driver: T,
  operations: readonly CloudOperation[],
  around: (
    operation: CloudOperation,
    call: CloudCall,
    args: readonly unknown[],
  ) => Promise<unknown>,
): T {
  const wrapped = new Map<string, CloudCall>();
  for (const operation of operations) {
    const call = driver[operation].bind(driver) as CloudCall; // each operation is a method of the port
    wrapped.set(operation, async (...args) => await around(operation, call, args));
  }
  return new Proxy(driver, {
    get: (target, property) => {
      const operation = typeof property === "string" ? wrapped.get(property) : undefined;
      if (operation) return operation;
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      // Called on the object itself, because a proxy has no private fields. Not bound, because V8 refuses to dispose with a
      // bound function.
      return (...args: readonly unknown[]): unknown => Reflect.apply(value, target, args);
    },
  });
}
