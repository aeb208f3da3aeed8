import type { AgentClient, PodReport } from "@kip/agent-api";

/** The report that an agent sends when it is asked; undefined if it has no pod. */
export async function firstReport(
  agent: AgentClient,
  signal: AbortSignal,
): Promise<PodReport | undefined> {
  for await (const report of agent.status(signal)) return report;
  signal.throwIfAborted();
  return undefined;
}
