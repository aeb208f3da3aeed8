import type { Clock } from "@kip/base";
import {
  CloudError,
  cloudOperations,
  wrapOperations,
  type CloudDriver,
  type CloudOperation,
} from "@kip/cloud";

const waits: readonly CloudOperation[] = ["waitForRunning", "waitForTerminated"];
/** The driver calls that are measured: those that the cloud answers at once, not those that wait for a machine. */
const requests = cloudOperations.filter((each) => !waits.includes(each));

/** Receives the duration of a call, and its result: "ok", or the code of its error. */
export type CloudObserver = (operation: CloudOperation, result: string, ms: number) => void;

/** A driver whose requests are counted. */
export function measuredDriver(
  driver: CloudDriver,
  { clock, observe }: { readonly clock: Clock; readonly observe: CloudObserver },
): CloudDriver {
  return wrapOperations(driver, requests, async (operation, call, args) => {
    const began = clock.monotonic();
    let result = "ok";
    try {
      return await call(...args);
    } catch (error) {
      result = CloudError.is(error) ? error.code : "error";
      throw error;
    } finally {
      observe(operation, result, clock.monotonic() - began);
    }
  });
}
