export { agentDirectories, type AgentDirectories } from "./storage/agent-directories.ts";
export { loadDependencies, type AgentDependencies } from "./dependencies/agent-dependencies.ts";
export { fetchImages } from "./image/fetch-images.ts";
export { collectGarbage } from "./memory/collect-garbage.ts";
export { rehearse, type RehearsalOptions } from "./rehearsal/rehearsal.ts";
export { startAgent, type AgentOptions, type RunningAgent } from "./agent/start-agent.ts";
export type { Mounter } from "./volumes/mounter.ts";
