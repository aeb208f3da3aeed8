import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { duplexPair } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { bucketCount } from "@kip/network-view";
import { sendNetwork } from "./network-stream.ts";

const hello = `${JSON.stringify({ sums: Array<number>(bucketCount).fill(7) })}\n`;
const never = new AbortController().signal;

/** The result of a connection to an agent that sends these lines, and how many changes it was sent. */
async function talk(...lines: readonly string[]) {
  const [own, agent] = duplexPair();
  let changes = 0;
  let sums: readonly number[] = [];
  agent.on("data", () => {}).write(lines.join(""));
  const ended = sendNetwork(
    own,
    (known) => {
      sums = known.sums;
      return {
        next: async () => {
          changes++;
          return [Buffer.from("change\n")];
        },
      };
    },
    never,
  );
  await assert.rejects(ended, { code: "AGENT_ANSWER_INVALID" });
  return { changes, sums };
}

describe("sendNetwork()", () => {
  it("sends a change when the one before is in force, and ends at a confirmation of another one", async () => {
    const { changes, sums } = await talk(hello, '{"applied":1}\n{"applied":2}\n{"applied":2}\n');
    assert.equal(changes, 3);
    assert.equal(sums[0], 7);
  });

  it("sends nothing to an agent whose sums are not valid", async () => {
    assert.equal((await talk('{"sums":[1]}\n')).changes, 0);
    assert.equal((await talk("nonsense\n")).changes, 0);
  });

  it("reads no endless line", async () => {
    assert.equal((await talk(hello, "x".repeat(5000))).changes, 1);
  });

  it("gives the connection of a cell that does not read a small part of a change", async () => {
    const [own, agent] = duplexPair();
    agent.write(hello);
    const change = Buffer.alloc(10 << 20);
    const ended = sendNetwork(own, () => ({ next: async () => [change] }), never);
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    const given = own.writableLength + agent.readableLength;
    assert.ok(given > 0 && given < change.length / 50, `${given} bytes`);
    own.destroy();
    await assert.rejects(ended);
  });

  it("keeps nothing of what a cell has sent while it waits for a change", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const [own, agent] = duplexPair();
    const isOpen = Promise.withResolvers<void>();
    const send = (): WeakRef<ArrayBufferLike> => {
      const line = Buffer.from(new Uint8Array(Buffer.from(hello)).buffer); // not a part of a pool
      agent.write(line);
      return new WeakRef(line.buffer);
    };
    const sent = send();
    const abort = new AbortController();
    const next = async (signal: AbortSignal): Promise<never> => {
      isOpen.resolve();
      return await new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      });
    };
    const ended = sendNetwork(own, () => ({ next }), abort.signal);
    await isOpen.promise;
    for (let round = 0; round < 20 && sent.deref(); round++) {
      await turn();
      collect();
    }
    assert.equal(sent.deref(), undefined);
    abort.abort(new Error("the test is over"));
    await assert.rejects(ended, /the test is over/);
  });

  it("keeps nothing of a change while it waits for the next one", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const [own, agent] = duplexPair();
    agent.write(hello);
    agent.resume();
    const isWaiting = Promise.withResolvers<void>();
    const abort = new AbortController();
    let given: WeakRef<ArrayBufferLike> | undefined;
    const next = async (signal: AbortSignal): Promise<readonly Buffer[]> => {
      if (!given) {
        const piece = Buffer.from(new Uint8Array(1000).buffer); // not a part of a pool
        given = new WeakRef(piece.buffer);
        agent.write('{"applied":1}\n');
        return [piece];
      }
      isWaiting.resolve();
      return await new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      });
    };
    const ended = sendNetwork(own, () => ({ next }), abort.signal);
    await isWaiting.promise;
    for (let round = 0; round < 20 && given?.deref(); round++) {
      await turn();
      collect();
    }
    assert.equal(given?.deref(), undefined);
    abort.abort(new Error("the test is over"));
    await assert.rejects(ended, /the test is over/);
  });

  it("ends when the agent ends, also while there is no change", async () => {
    const [own, agent] = duplexPair();
    agent.write(hello);
    const waiting = Promise.withResolvers<void>();
    const ended = sendNetwork(
      own,
      () => ({
        next: async (signal) => {
          signal.addEventListener("abort", () => waiting.reject(signal.reason));
          agent.destroy();
          own.destroy();
          await waiting.promise;
          return [];
        },
      }),
      never,
    );
    await assert.rejects(ended, { code: "AGENT_ANSWER_INVALID" });
  });
});
