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

/** Dependencies of the agent. Tests replace them. */
export interface AgentDependencies {
  readonly runtime: ContainerRuntime;
  readonly images: ImageStore;
  /** @default no cache */
  readonly cacheFolder?: CacheFolder;
  readonly mounter: Mounter;
  readonly diskMeter: DiskMeter;
  /** The machine's current devices. */
  cdiDevices(): Promise<CdiDevices>;
  describeDevice: DescribeDevice;
  /** Makes the kernel reserve huge pages. @returns why the pod cannot run on this cell, if so */
  reserveHugePages(wanted: readonly DesiredHugePages[]): Promise<EndReason | undefined>;
  /** Enlarges the root file system to the size of its disk. Absent if it has no disk of its own. */
  readonly growRootFileSystem?: () => Promise<void>;
  createSandbox(options: PodSandboxOptions): Promise<PodSandbox>;
  removeSandbox(options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">): Promise<void>;
  /** Configures a pod's link beyond its address, once its sandbox exists. Absent if pods have no link. */
  readonly setUpLink?: (link: PodLink) => Promise<void>;
  /** Creates rules for Services and policies. Absent if pods cannot have any. */
  readonly createNetworkRules?: (place: PodPlace, options: PodRulesOptions) => PodRules;
  resolveUser(rootfs: string, user: string): Promise<ResolvedUser>;
  /**
   * Resolves when everything is prepared that can be before the pod arrives. Never rejects, because a pod creates what is
   * missing.
   */
  readonly prepared?: Promise<void>;
  /** The part of the preparation that volumes wait for, so that nothing is created twice. */
  readonly volumesPrepared?: Promise<void>;
}

/** Options of {@link loadDependencies}. */
export interface LoadDependenciesOptions {
  readonly directories: AgentDirectories;
  /**
   * For templates: whether to apply the network tables with which a pod's own rules begin. Must not be used on a machine with a
   * pod.
   *
   * @default false
   */
  readonly preparesRules?: boolean | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Loads the real dependencies. Meanwhile and afterwards, prepares what a pod will need: {@link AgentDependencies.prepared}.
 * None of them are loaded before, because loading takes most of the agent's start.
 */
export async function loadDependencies(
  options: LoadDependenciesOptions,
): Promise<AgentDependencies> {
  const { loadRealDependencies } = await import("./load-dependencies.ts");
  return await loadRealDependencies(options);
}
