import { defined, withTimeout, type Clock, type Logger } from "@kip/base";
import type { AgentClient, AgentStats, PodReport } from "@kip/agent-api";
import type { PodUsage, ProbeCounts } from "@kip/virtual-kubelet";

/** Time limit for a cell's answer, milliseconds. A busy cell must not hold up the others. */
const timeoutMs = 5000;

/** A pod whose cell is connected. */
export interface MeasuredPod {
  readonly uid: string;
  readonly agent: AgentClient;
  readonly report: PodReport | undefined;
  /** Names of the pod's containers; figures of others are ignored. */
  readonly containers: ReadonlySet<string>;
}

/** Options of {@link measurePods} and {@link countProbes}. */
export interface AskOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The resource usage of pods, from their cells; pods whose cell does not answer are left out. */
export async function measurePods(
  pods: readonly MeasuredPod[],
  options: AskOptions,
): Promise<readonly PodUsage[]> {
  return await askCells(pods, options, ({ uid, report, containers }, stats) => [
    podUsage(uid, restrictStatsToPod(stats, containers), report),
  ]);
}

/** The probe counts of pods, from their cells. */
export async function countProbes(
  pods: readonly MeasuredPod[],
  options: AskOptions,
): Promise<readonly ProbeCounts[]> {
  return await askCells(pods, options, ({ uid, containers }, stats) => {
    const { probes = [] } = restrictStatsToPod(stats, containers);
    return probes.map((counts) => ({ ...counts, uid }));
  });
}

async function askCells<T>(
  pods: readonly MeasuredPod[],
  { clock, logger, signal }: AskOptions,
  convert: (pod: MeasuredPod, stats: AgentStats) => readonly T[],
): Promise<readonly T[]> {
  const measured = await Promise.all(
    pods.map(async (pod): Promise<readonly T[]> => {
      try {
        const ask = async (limit: AbortSignal): Promise<AgentStats> => await pod.agent.stats(limit);
        return convert(pod, await withTimeout(ask, { limitMs: timeoutMs, clock, signal }));
      } catch (error) {
        logger.debug("Could not read the usage of a pod from its cell", {
          podUid: pod.uid,
          err: error,
        });
        return [];
      }
    }),
  );
  return measured.flat();
}

/** Drops other containers and duplicate probes: a hostile cell must not fill the node's metrics. */
function restrictStatsToPod(stats: AgentStats, names: ReadonlySet<string>): AgentStats {
  const probes = stats.probes?.filter(({ container }) => names.has(container));
  const byProbe = new Map(probes?.map((each) => [`${each.kind} ${each.container}`, each]));
  return {
    ...stats,
    containers: Object.fromEntries(
      Object.entries(stats.containers).filter(([name]) => names.has(name)),
    ),
    probes: [...byProbe.values()],
  };
}

/** An agent's figures in the form of the virtual kubelet. */
export function podUsage(uid: string, stats: AgentStats, report: PodReport | undefined): PodUsage {
  const timeMs = Date.parse(stats.time);
  const { containers = [], initContainers = [], ephemeralContainers = [] } = report ?? {};
  const starts = new Map(
    [...initContainers, ...containers, ...ephemeralContainers].map(({ name, running }) => [
      name,
      Date.parse(running?.startedAt ?? ""),
    ]),
  );
  return {
    uid,
    containers: Object.entries(stats.containers).map(([name, usage]) => {
      const startTimeMs = starts.get(name) ?? Number.NaN;
      return defined({
        name,
        timeMs,
        cpuNanoseconds: usage.cpuUsageNanoseconds,
        memoryBytes: usage.memoryUsageBytes,
        workingSetBytes: usage.memoryWorkingSetBytes,
        startTimeMs: Number.isFinite(startTimeMs) ? startTimeMs : undefined,
      });
    }),
  };
}
