export { startAgent, type AgentOptions, type RunningAgent } from "./start-agent.ts";
