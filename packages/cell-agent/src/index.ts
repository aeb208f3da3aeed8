export type { AgentParts } from "./agent-parts.ts";
export { startAgent, type AgentOptions, type RunningAgent } from "./start-agent.ts";
export type { Mounter } from "./volumes/mounter.ts";
