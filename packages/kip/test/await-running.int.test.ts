// What a driver learns about an instance that it waits for, with a port on loopback instead of the agent's.
import assert from "node:assert/strict";
import net from "node:net";
import { describe, it } from "node:test";
import { agentPort } from "@kip/agent-api";
import type { CloudDriver, Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { awaitRunning } from "../src/cell/steps/start-instance.ts";
import type { CellTools } from "../src/cell/steps/step-context.ts";
import { cellStateWith, StateUnderTest } from "../src/testing/index.ts";
import type { Cell } from "../src/state/cell.ts";

const address = "127.0.64.21";
type WaitForRunning = CloudDriver["waitForRunning"];

describe("awaitRunning()", () => {
  it("tells the driver when the agent's port of the instance answers, and not after the wait", async () => {
    const instance = { id: "i-1", managementIp: address, podIp: "10.0.0.2" } as Instance; // the fields that are read
    const seen: string[] = [];
    const waitForRunning: WaitForRunning = async (_id, _signal, answers) => {
      const early = new AbortController();
      const given = answers?.(address, early.signal);
      early.abort(new Error("the wait has ended"));
      await assert.rejects(given ?? Promise.resolve(), /the wait has ended/);
      const answered = answers?.(address, new AbortController().signal);
      const server = net.createServer().listen(agentPort, address);
      await answered;
      seen.push("answered");
      server.close();
      return instance;
    };
    const object = { metadata: { name: "c", uid: "c" }, spec: { podRef: { uid: "p" } } };
    const state = cellStateWith({
      cell: { object: object as unknown as Cell, status: { phase: "Launching" } }, // the fields that are read
      machine: { instance },
    });
    const clock = new ManualClock();
    const cell = new StateUnderTest(state, clock);
    const tools = {
      driver: { waitForRunning },
      clock,
      statuses: { note: () => {}, noteTransient: () => {} },
    } as unknown as CellTools; // the parts that the step uses
    await cell.run(async (context) => await awaitRunning(tools, context));
    assert.deepEqual([seen, cell.state.cell.status.ip], [["answered"], address]);
  });
});
