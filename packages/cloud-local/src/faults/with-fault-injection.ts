import { silentLogger, systemClock, type Clock, type Logger } from "@kip/base";
import { faultyCloud } from "@kip/cloud/faults";
import type { InterruptionNotice } from "@kip/cloud";
import type { LocalCloud } from "../local-cloud.ts";
import { MachineStore } from "../machine/machine-store.ts";
import { FaultsFile } from "./faults-file.ts";
import { endAbruptly } from "./machine-end.ts";
import { Notices } from "./notices.ts";

/** Options of {@link withFaultInjection}. */
export interface FaultInjectionOptions {
  /** The local cloud's state folder. */
  readonly stateDir: string;
  /** @default the system clock */
  readonly clock?: Clock | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
}

/**
 * Wraps the local cloud with the faults that any process sets (`openLocalFaults`). Without faults it behaves like the given
 * cloud. Disposing of it also disposes of that cloud.
 */
export async function withFaultInjection(
  cloud: LocalCloud,
  options: FaultInjectionOptions,
): Promise<LocalCloud> {
  const { stateDir, clock = systemClock } = options;
  const logger = (options.logger ?? silentLogger).with({ component: "faults" });
  const file = new FaultsFile(stateDir);
  const store = new MachineStore(stateDir);
  const notices = new Notices({
    file,
    clock,
    logger,
    describe: (id) => cloud.describe(id),
    isGone: async ({ instance, launchedAt }) => {
      const record = await store.read(instance);
      return record?.launchedAt !== launchedAt || record.state === "ended";
    },
    end: (id) => endAbruptly(store, id),
  });
  await notices.open();
  const faulty = faultyCloud(cloud, { rules: file.rules, clock });
  const replaced = new Map<string | symbol, unknown>([
    [
      "onInterruption",
      (callback: (notice: InterruptionNotice) => void) => notices.subscribe(callback),
    ],
    [
      Symbol.asyncDispose,
      async () => {
        await notices.close();
        await cloud[Symbol.asyncDispose]();
      },
    ],
  ]);
  return new Proxy(faulty, {
    get: (target, property): unknown => replaced.get(property) ?? Reflect.get(target, property),
  });
}
