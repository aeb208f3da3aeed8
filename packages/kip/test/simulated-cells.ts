import { identityInUserData, SimulatedAgent } from "@kip/agent-api/testing";
import { createSimulatedCloud, type SimulatedCloud } from "@kip/cloud/simulated";

/** A cloud whose machines are agents on loopback addresses. A machine without user data has no agent. */
export interface SimulatedCells extends AsyncDisposable {
  readonly cloud: SimulatedCloud;
}

/** @param subnet third byte of the addresses in 127.44.0.0/16, for tests that run at the same time */
export function openSimulatedCells(subnet = 0): SimulatedCells {
  const agents = new Set<SimulatedAgent>();
  const cloud = createSimulatedCloud({
    addresses: (slot) => ({
      managementIp: `127.44.${subnet}.${slot + 1}`,
      podIp: `10.44.${subnet}.${slot + 1}`,
    }),
    boot: ({ instance, userData }) => {
      if (userData.length === 0) return () => {};
      const host = instance.managementIp ?? "";
      const listening = SimulatedAgent.listen({ identity: identityInUserData(userData), host });
      void listening.then((agent) => agents.add(agent));
      return () => void listening.then((agent) => agent[Symbol.asyncDispose]());
    },
  });
  return {
    cloud,
    [Symbol.asyncDispose]: async () => {
      for (const agent of agents) await agent[Symbol.asyncDispose]();
    },
  };
}
