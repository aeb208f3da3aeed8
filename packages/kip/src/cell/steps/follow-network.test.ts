import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AgentError, type AgentClient } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { cellStateWith } from "../../testing/index.ts";
import { followNetwork } from "./follow-network.ts";
import type { CellTools } from "./step-context.ts";

/** An agent whose call behaves as the test says, and the result. */
function start(
  send: AgentClient["sendNetwork"],
  network: Partial<NonNullable<CellTools["network"]>> = {},
) {
  const closed = Promise.withResolvers<void>();
  const clock = new ManualClock();
  const log: string[] = [];
  const client = {
    closed: closed.promise,
    isClosing: false,
    sendNetwork: send,
    [Symbol.asyncDispose]: async () => {
      log.push("connection closed");
      closed.resolve();
    },
  } as unknown as AgentClient; // the methods that are called
  const tools = {
    network: {
      settings: async () => assert.fail("asks the cloud"),
      isWatched: async () => true,
      synced: async () => {},
      hasTiers: () => false,
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
  const beginToClose = (): void => void Object.assign(client, { isClosing: true });
  return { log, ended, clock, close: closed.resolve, beginToClose, uid: state.podRef.uid };
}

const untilAborted = async (signal: AbortSignal): Promise<void> =>
  await new Promise((_resolve, reject) =>
    signal.addEventListener("abort", () => reject(new Error("aborted"))),
  );

describe("followNetwork()", () => {
  it("follows the views of the pod until the connection ends", async () => {
    const { log, ended, close, uid } = start(async (open, signal) => {
      open({ sums: [] });
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

  it("says of a pod whose agent does not know actions that directions are closed", async () => {
    const { log, ended, uid } = start(async (open) => void open({ sums: [], policyVersion: 1 }), {
      hasTiers: () => true,
    });
    await ended;
    assert.deepEqual(log.slice(0, 2), ["NetworkUnsupported", `subscribed ${uid}`]);
  });

  for (const [policyVersion, known] of [
    [undefined, { knowsTiers: false, hasShortLists: true }],
    [2, { knowsTiers: true, hasShortLists: true }],
    [3, { knowsTiers: true, hasShortLists: false }],
  ] as const)
    it(`asks for what an agent of version ${policyVersion ?? "1"} of policies knows`, async () => {
      const asked: object[] = [];
      const { ended } = start(async (open) => void open({ sums: [], policyVersion }), {
        subscribe: ({ knowsTiers, hasShortLists }) => {
          asked.push({ knowsTiers, hasShortLists });
          return { next: async () => [], [Symbol.dispose]: () => {} };
        },
      });
      await ended;
      assert.deepEqual(asked, [known]);
    });

  it("says of a pod that kip may not watch the cluster's network, and sends nothing", async () => {
    const { log, ended } = start(async () => assert.fail("sent"), {
      isWatched: async () => false,
    });
    await ended;
    assert.deepEqual(log, ["NetworkUnavailable"]);
  });

  it("keeps the connection when changes cannot be sent, says so, and sends again after a growing pause", async () => {
    let calls = 0;
    const { log, ended, clock, close, uid } = start(async (open) => {
      calls += 1;
      open({ sums: [] });
      throw new AgentError("AGENT_ANSWER_INVALID", "nonsense");
    });
    const times: number[] = [];
    for (let second = 0; second < 3600 && times.length < 20; second++) {
      const before = calls;
      await clock.advance(1000);
      for (let i = 0; i < 5; i++) await new Promise(setImmediate);
      if (calls > before) times.push(second);
    }
    close();
    await ended;
    assert.ok(!log.includes("connection closed"));
    assert.deepEqual(log.slice(0, 4), [
      `subscribed ${uid}`,
      "disposed",
      "NetworkNotReady",
      `subscribed ${uid}`,
    ]);
    assert.equal(times.length, 20, "it goes on");
    assert.ok((times.at(-1) ?? 0) - (times.at(-2) ?? 0) > 40);
  });

  it("goes on with the newest changes once they can be sent", async () => {
    let failures = 2;
    const { log, ended, clock, close, uid } = start(async (open, signal) => {
      open({ sums: [] });
      if (failures-- > 0) throw new Error("Cannot encode the change");
      await untilAborted(signal);
    });
    for (let second = 0; second < 10; second++) {
      await clock.advance(1000);
      await new Promise(setImmediate);
    }
    assert.equal(log.at(-1), `subscribed ${uid}`);
    assert.equal(log.filter((line) => line === "NetworkNotReady").length, 2);
    close();
    await ended;
    assert.equal(log.at(-1), "disposed");
  });

  it("says nothing of a stream that ends because its connection does", async () => {
    const { log, ended, close } = start(async () => {
      close();
      throw new AgentError("AGENT_UNREACHABLE", "gone");
    });
    await ended;
    assert.deepEqual(log, []);
  });

  it("says nothing either if the socket of the connection closes after the pause", async () => {
    const { log, ended, clock, close, beginToClose } = start(async () => {
      beginToClose();
      throw new AgentError("AGENT_ANSWER_INVALID", "it ended");
    });
    await new Promise(setImmediate);
    await clock.advance(1000);
    close();
    await ended;
    assert.deepEqual(log, []);
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
