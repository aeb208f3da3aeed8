import type { DesiredHugePages } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";
import type { ImageStore, ResolvedUser } from "@kip/oci-image";
import type { ContainerRuntime, PodSandbox, PodSandboxOptions } from "@kip/oci-runtime";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { CdiDevices } from "../devices/cdi-devices.ts";
import type { DescribeDevice } from "../devices/container-edits.ts";
import type { DiskMeter } from "../disk/disk-meter.ts";
import type { CacheFolder } from "../image/cache-folder.ts";
import type { PodLink } from "../network/pod-link.ts";
import type { PodPlace, PodRules, PodRulesOptions } from "../network/pod-rules.ts";
import type { EndReason } from "../state/pod-state.ts";
import type { Mounter } from "../volumes/mounter.ts";

/** Dependencies of the agent; tests have their own. */
export interface AgentDependencies {
  readonly runtime: ContainerRuntime;
  readonly images: ImageStore;
  /** @default no cache */
  readonly cacheFolder?: CacheFolder;
  readonly mounter: Mounter;
  readonly diskMeter: DiskMeter;
  /** What the machine has of devices now. */
  cdiDevices(): Promise<CdiDevices>;
  describeDevice: DescribeDevice;
  /** Has the kernel set huge pages aside. @returns why the pod cannot run on this cell, if it cannot */
  reserveHugePages(wanted: readonly DesiredHugePages[]): Promise<EndReason | undefined>;
  /** Grows the root file system to its disk; absent where there is none of its own. */
  readonly growRootFileSystem?: () => Promise<void>;
  createSandbox(options: PodSandboxOptions): Promise<PodSandbox>;
  removeSandbox(options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">): Promise<void>;
  /** Makes what a pod's own link has besides its address, once its sandbox is there; absent where a pod has none. */
  readonly setUpLink?: (link: PodLink) => Promise<void>;
  /** Rules for Services and policies; absent where a pod cannot have any. */
  readonly createNetworkRules?: (place: PodPlace, options: PodRulesOptions) => PodRules;
  resolveUser(rootfs: string, user: string): Promise<ResolvedUser>;
  /** Resolves when all is prepared that can be before the pod comes. Never fails: a pod makes what is missing. */
  readonly prepared?: Promise<void>;
  /** The part of it that volumes wait for, so that nothing is made twice. */
  readonly volumesPrepared?: Promise<void>;
}

/** What {@link loadDependencies} needs. */
export interface LoadDependenciesOptions {
  readonly directories: AgentDirectories;
  /**
   * Puts tables of network rules in force first, which a pod's own rules begin with: for templates. A machine with a pod must not.
   *
   * @default false
   */
  readonly preparesRules?: boolean | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Loads the real dependencies, and prepares what a pod will need meanwhile and afterwards: {@link AgentDependencies.prepared}.
 * Nothing of them is loaded before: that is what takes long at the agent's start.
 */
export async function loadDependencies(
  options: LoadDependenciesOptions,
): Promise<AgentDependencies> {
  const { loadRealDependencies } = await import("./load-dependencies.ts");
  return await loadRealDependencies(options);
}
