import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, WaitForAgentOptions } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { Gate } from "./gate.ts";
import { Machines } from "./machines.ts";

describe("machines of the world with faults", () => {
  it("connect at their address, when two of them are of Cells of one name", async () => {
    const { boot, dial } = setUp();
    boot("late", "cell-1", "10.0.0.1");
    boot("new", "cell-1", "10.0.0.2");
    await using client = await dial("10.0.0.2", "cell-1");
    const { bootId } = await client.info();
    assert.equal(bootId, "new-0");
  });

  it("show who they are to a kip that looks for another Cell at their address", async () => {
    const { boot, dial } = setUp();
    boot("other", "cell-2", "10.0.0.1");
    await assert.rejects(dial("10.0.0.1", "cell-1"), { code: "AGENT_IDENTITY_INVALID" });
  });
});

function setUp() {
  const clock = new ManualClock();
  const machines = new Machines({ clock, onRun: () => {}, onExit: () => {} });
  const world = { clock, isAway: () => false, takeFault: () => undefined, disturbed: () => {} };
  const dialer = machines.dialer(new Gate(world, () => 0));
  const boot = (id: string, name: string, managementIp: string): void => {
    machines.boot({ id, name, managementIp, token: id } as Instance); // the fields that are read
  };
  const dial = async (address: string, cellName: string): Promise<AgentClient> => {
    const { signal } = new AbortController();
    const options = { address, cellName, ca: "", certificate: "", key: "", signal };
    return await dialer({ ...options, logger: silentLogger } satisfies WaitForAgentOptions);
  };
  return { boot, dial };
}
