export { SimulatedAgent, type SimulatedAgentOptions } from "./simulated-agent.ts";
