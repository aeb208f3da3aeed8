import { maxInterfaces, type AgentStats } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";
import type { CgroupUsage, ContainerRuntime } from "@kip/oci-runtime";
import type { AgentWorker } from "../pod/agent-worker.ts";
import { readInterfaces } from "./interfaces.ts";

/** Options of {@link agentStats}. */
export interface AgentStatsOptions {
  readonly worker: Pick<
    AgentWorker,
    "running" | "probes" | "sandbox" | "hasMemoryLimit" | "diskFigures"
  >;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The pod's resource usage, measured now except for its disk. Reads some dozen kernel files per container, and runs no program.
 * Containers that end during the measurement are left out.
 */
export async function agentStats(
  runtime: Pick<ContainerRuntime, "stats" | "podStats">,
  { worker, clock, logger }: AgentStatsOptions,
): Promise<AgentStats> {
  const containers: Record<string, CgroupUsage> = {};
  let firstPid: number | undefined;
  for (const [name, id] of worker.running()) {
    try {
      const { pid, ...usage } = await runtime.stats(id);
      containers[name] = reported(usage);
      firstPid ??= pid;
    } catch (error) {
      // It has ended in the meantime.
      logger.debug("Left a container out of the statistics", { container: name, err: error });
    }
  }
  const usage = worker.sandbox && runtime.podStats(worker.sandbox);
  const pod = usage && ofPod(usage, worker);
  const cpu = process.cpuUsage();
  const nowMs = clock.now();
  return {
    time: new Date(nowMs).toISOString(),
    containers,
    pod: pod && reported(pod),
    interfaces: firstPid === undefined ? undefined : readInterfaces(firstPid),
    disk: worker.diskFigures.read(nowMs),
    probes: worker.probes(),
    agentRssBytes: process.memoryUsage.rss(),
    agentCpuMicroseconds: cpu.user + cpu.system,
  };
}

/** As in a kubelet, a pod without a limit reports none. */
function ofPod(
  usage: CgroupUsage,
  { hasMemoryLimit }: Pick<AgentWorker, "hasMemoryLimit">,
): CgroupUsage {
  const { memoryLimitBytes: _ofCgroup, ...rest } = usage;
  return hasMemoryLimit ? usage : rest;
}

/** Limits the number of devices to what kip reads. */
function reported(usage: CgroupUsage): CgroupUsage {
  return usage.devices ? { ...usage, devices: usage.devices.slice(0, maxInterfaces) } : usage;
}
