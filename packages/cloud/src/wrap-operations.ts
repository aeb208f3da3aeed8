import type { CloudDriver } from "./cloud-driver.ts";
import type { CloudOperation } from "./operations.ts";

/** A call of a driver's operation, with its arguments. */
export type CloudCall = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * A driver some of whose operations go through `around`, which calls the operation itself. What the driver has besides stays
 * as it is.
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
      // Called on the object itself, whose private fields no proxy has; not bound, as V8 refuses to dispose by a bound function.
      return (...args: readonly unknown[]): unknown => Reflect.apply(value, target, args);
    },
  });
}
