import { faultyCloud, type FaultRuleStore } from "../faults/faulty-cloud.ts";
import type { FaultRule } from "../faults/fault-rules.ts";
import type { CloudFaults } from "../faults/cloud-faults.ts";
import type { CloudOperation } from "../operations.ts";
import { createCloudFaults } from "../faults/create-cloud-faults.ts";
import type { CloudDriver } from "../cloud-driver.ts";
import { CloudError } from "../errors.ts";
import { seededRandom } from "./seeded-random.ts";
import {
  resolveSimulatedCloudOptions,
  type SimulatedCloudOptions,
} from "./simulated-cloud-options.ts";
import { SimulatedDriver } from "./simulated-driver.ts";
import { SimulatedMachines } from "./simulated-machines.ts";
import { SimulatedVolumes, type SimulatedDisk } from "./simulated-volumes.ts";

/** The disks of a simulated instance, as its guest sees them. */
export interface SimulatedHardware {
  /** Size of the root disk, bytes. */
  readonly rootBytes: number;
  readonly disks: readonly SimulatedDisk[];
}

/** A cloud in memory. It lives as long as this object, whatever handles are open. */
export interface SimulatedCloud {
  /** Opens a handle for one owner. A second handle stands for another process, or for kip after a restart. */
  open(options: { readonly owner: string }): CloudDriver;
  /** Faults that a test can cause. */
  readonly faults: CloudFaults;
  /** Number of calls that have reached the cloud, of one operation or of all. Waiting counts as one call. */
  callCount(operation?: CloudOperation): number;
  /** @throws {CloudError} `CLOUD_NOT_FOUND` */
  hardware(instanceId: string): SimulatedHardware;
  /** Writes to a disk, on behalf of the guest. */
  write(instanceId: string, serial: string, content: string): void;
}

/**
 * Creates a cloud in memory, for tests and benchmarks. It implements the port and starts no machines. Its behaviour and timing
 * depend only on the options, the seed and the clock.
 *
 * @example
 * ```ts
 * import type { LaunchRequest } from "@kip/cloud";
 * import { createSimulatedCloud } from "@kip/cloud/simulated";
 *
 * const cloud = createSimulatedCloud({ startMs: 50 });
 * await using driver = cloud.open({ owner: "me" });
 * const request: LaunchRequest = {
 *   token: "the UID of a Cell",
 *   name: "web",
 *   instanceType: "sim.1",
 *   launchType: "on-demand",
 *   image: await driver.resolveImage({ name: "cell" }),
 *   rootDiskBytes: 2 ** 30,
 *   userData: new Uint8Array(),
 *   privateIpOnly: true,
 *   tags: {},
 * };
 * const { id } = await driver.launch(request);
 * const { id: same } = await driver.launch(request); // the same token
 * assert.equal(same, id);
 * const running = await driver.waitForRunning(id);
 * assert.equal(running.state, "running");
 * await driver.terminate(id);
 * await driver.waitForTerminated(id);
 * assert.deepEqual(await driver.list(), []);
 * ```
 */
export function createSimulatedCloud(given: SimulatedCloudOptions = {}): SimulatedCloud {
  const options = resolveSimulatedCloudOptions(given);
  const { clock, callMs } = options;
  const random = seededRandom(options.seed);
  const machines = new SimulatedMachines(options, random);
  const volumes = new SimulatedVolumes(random);
  machines.onGone = (instanceId) => volumes.release(instanceId);
  const rules = rulesInMemory();
  const calls = new Map<CloudOperation, number>();

  async function arrive(operation: CloudOperation, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    calls.set(operation, (calls.get(operation) ?? 0) + 1);
    const ms = callMs.minMs + random() * (callMs.maxMs - callMs.minMs);
    if (ms > 0) await clock.sleep(ms, signal);
  }

  return {
    faults: createCloudFaults({
      rules,
      clock,
      kill: async (id) => {
        await Promise.resolve(machines.end(id, "The instance was killed"));
      },
      interrupt: async (id, noticeMs) => {
        await Promise.resolve(machines.interrupt(id, noticeMs));
      },
    }),
    open: ({ owner }) =>
      faultyCloud<CloudDriver>(new SimulatedDriver({ owner, options, machines, volumes, arrive }), {
        rules,
        clock,
      }),
    callCount: (operation) =>
      operation === undefined
        ? [...calls.values()].reduce((sum, count) => sum + count, 0)
        : (calls.get(operation) ?? 0),
    hardware: (instanceId) => {
      const rootBytes = machines.rootDiskBytes(instanceId);
      if (rootBytes !== undefined) return { rootBytes, disks: volumes.ofInstance(instanceId) };
      throw new CloudError("CLOUD_NOT_FOUND", `Cannot find instance "${instanceId}"`);
    },
    write: (instanceId, serial, content) => volumes.write(instanceId, serial, content),
  };
}

function rulesInMemory(): FaultRuleStore {
  let rules: readonly FaultRule[] = [];
  return {
    read: async () => await Promise.resolve(rules),
    update: async (change) => {
      // Synchronous, so that changes of other calls cannot come in between.
      rules = change(rules);
      await Promise.resolve();
    },
  };
}
