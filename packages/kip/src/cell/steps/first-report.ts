import type { AgentClient, PodReport } from "@kip/agent-api";

/** The agent's current report; undefined if it has no pod. */
export async function firstReport(
  agent: AgentClient,
  signal: AbortSignal,
): Promise<PodReport | undefined> {
  for await (const report of agent.status(signal)) return report;
  signal.throwIfAborted();
  return undefined;
}
