export { identityInUserData } from "./identity-in-user-data.ts";
export { SimulatedAgent, type SimulatedAgentOptions } from "./simulated-agent.ts";
