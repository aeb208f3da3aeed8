// The agents of bench/scale.ts, in their own process, so that their memory does not count as kip's. Kip's process sends an
// identity and an address for each machine that boots, and an address for each that has ended.
import { SimulatedAgent } from "@kip/agent-api/testing";
import type { CellIdentity } from "@kip/agent-api";

/** A machine boots with an identity, or ends. */
export interface MachineMessage {
  readonly host: string;
  readonly identity?: CellIdentity | undefined;
}

const agents = new Map<string, Promise<SimulatedAgent>>();

process.once("disconnect", () => process.exit()); // kip's process has ended
process.on("message", ({ host, identity }: MachineMessage) => {
  const before = agents.get(host);
  agents.delete(host);
  const ended = before?.then(async (agent) => await agent[Symbol.asyncDispose]());
  if (!identity) return;
  const start = async (): Promise<SimulatedAgent> => {
    await ended;
    return await SimulatedAgent.listen({ identity, host });
  };
  agents.set(host, start());
});
