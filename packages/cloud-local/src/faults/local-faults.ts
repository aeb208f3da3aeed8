import { systemClock, type Clock } from "@kip/base";
import { createCloudFaults, type FaultRule, type CloudFaults } from "@kip/cloud/faults";
import { localInstanceTypes } from "../host/catalog.ts";
import { readHostFacts } from "../host/host-facts.ts";
import { MachineStore } from "../machine/machine-store.ts";
import { FaultsFile } from "./faults-file.ts";
import { endAbruptly, findMachine, livingMachine, podOf } from "./machine-end.ts";

/** Options of {@link openLocalFaults}. */
export interface LocalFaultsOptions {
  /** The local cloud's state folder. */
  readonly stateDir: string;
  /** Names of the instance types on offer. @default those of the local cloud on this host */
  readonly instanceTypes?: readonly string[] | undefined;
  /** @default the system clock */
  readonly clock?: Clock | undefined;
}

/** A machine, with the names that people use. */
export interface NamedMachine {
  readonly id: string;
  /** Name of its cell. */
  readonly name: string;
  /** `namespace/name`. */
  readonly pod?: string | undefined;
}

/** The faults in force. */
export interface FaultReport {
  readonly rules: readonly FaultRule[];
  readonly notices: readonly (NamedMachine & { readonly endsAt: string })[];
}

/** The faults of a local cloud, and what people need to set them. */
export interface LocalFaults extends CloudFaults {
  /** Lists the faults in force. */
  report(): Promise<FaultReport>;
  /**
   * Finds the machine of a cell or pod.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND` with the nearest name; `CLOUD_INVALID_REQUEST` if several match
   */
  find(cellOrPod: string): Promise<NamedMachine>;
  /** Names of the instance types on offer. */
  readonly instanceTypes: readonly string[];
}

/** Opens the faults of the local cloud in a state folder. Any process may do so at any time. Only for root. */
export function openLocalFaults(options: LocalFaultsOptions): LocalFaults {
  const { stateDir, clock = systemClock } = options;
  const store = new MachineStore(stateDir);
  const file = new FaultsFile(stateDir);
  const faults = createCloudFaults({
    rules: file.rules,
    clock,
    kill: async (id) => {
      await livingMachine(store, id);
      await endAbruptly(store, id);
    },
    interrupt: async (id, noticeMs) => {
      const { launchedAt } = await livingMachine(store, id);
      const endsAt = new Date(clock.now() + noticeMs).toISOString();
      await file.update(({ rules, notices }) => ({
        rules,
        notices: [
          ...notices.filter(({ instance }) => instance !== id),
          { instance: id, launchedAt, endsAt },
        ],
      }));
    },
  });
  return {
    ...faults,
    instanceTypes:
      options.instanceTypes ?? localInstanceTypes(readHostFacts()).map(({ name }) => name),
    find: async (word) => named(await findMachine(store, word)),
    report: async () => {
      const { rules, notices } = await file.read();
      const records = await Promise.all(notices.map(({ instance }) => store.read(instance)));
      return {
        rules,
        notices: notices.flatMap(({ endsAt, launchedAt }, index) => {
          const record = records[index];
          const isThere = record?.launchedAt === launchedAt && record.state !== "ended";
          return isThere ? [{ ...named(record), endsAt }] : [];
        }),
      };
    },
  };
}

function named(record: Parameters<typeof podOf>[0]): NamedMachine {
  const pod = podOf(record);
  return { id: record.id, name: record.name, pod };
}
