import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AgentError, type AgentClient } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { cellStateWith } from "../../testing/index.ts";
import { followNetwork } from "./follow-network.ts";
import type { CellTools } from "./step-context.ts";

/** An agent whose call does what the test says, and what becomes of it. */
function start(
  send: AgentClient["sendNetwork"],
  network: Partial<NonNullable<CellTools["network"]>> = {},
) {
  const closed = Promise.withResolvers<void>();
  const clock = new ManualClock();
  const log: string[] = [];
  const client = {
    closed: closed.promise,
    sendNetwork: send,
    [Symbol.asyncDispose]: async () => {
      log.push("connection closed");
      closed.resolve();
    },
  } as unknown as AgentClient; // all that is called
  const tools = {
    network: {
      settings: async () => assert.fail("asks the cloud"),
      isWatched: async () => true,
      synced: async () => {},
      subscribe: ({ podUid }: { podUid: string }) => {
        log.push(`subscribed ${podUid}`);
        return { next: async () => [], [Symbol.dispose]: () => void log.push("disposed") };
      },
      ...network,
    },
    onProblem: (_uid: string, reason: string) => void log.push(reason),
    clock,
    logger: silentLogger,
  };
  const state = cellStateWith();
  const ended = followNetwork(tools, client, { state: () => state });
  return { log, ended, clock, close: closed.resolve, uid: state.podRef.uid };
}

const untilAborted = async (signal: AbortSignal): Promise<void> =>
  await new Promise((_resolve, reject) =>
    signal.addEventListener("abort", () => reject(new Error("aborted"))),
  );

describe("followNetwork()", () => {
  it("follows the views of the pod until the connection ends", async () => {
    const { log, ended, close, uid } = start(async (open, signal) => {
      open([]);
      await untilAborted(signal);
    });
    await new Promise(setImmediate);
    close();
    await ended;
    assert.deepEqual(log, [`subscribed ${uid}`, "disposed"]);
  });

  it("says of a pod on a cell whose agent does not know the call that it has no policies", async () => {
    const { log, ended } = start(async () => {
      throw new AgentError("AGENT_NOT_FOUND", "no such call");
    });
    await ended;
    assert.deepEqual(log, ["NetworkUnsupported"]);
  });

  it("says of a pod that kip may not watch the cluster's network, and sends nothing", async () => {
    const { log, ended } = start(async () => assert.fail("sent"), {
      isWatched: async () => false,
    });
    await ended;
    assert.deepEqual(log, ["NetworkUnavailable"]);
  });

  it("closes a connection over which no more changes go", async () => {
    const { log, ended } = start(async (open) => {
      open([]);
      throw new AgentError("AGENT_ANSWER_INVALID", "nonsense");
    });
    await ended;
    assert.deepEqual(log.slice(1), ["connection closed", "disposed"]);
  });

  it("says of a pod that waits for the cluster's network for long", async () => {
    const { log, ended, clock, close } = start(async () => assert.fail("sent"), {
      synced: untilAborted,
    });
    await new Promise(setImmediate);
    await clock.advance(10_000);
    assert.deepEqual(log, ["NetworkNotReady"]);
    close();
    await ended;
  });
});
