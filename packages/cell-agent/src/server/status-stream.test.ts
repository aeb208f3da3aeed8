import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import type { ServerHttp2Stream } from "node:http2";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { PodReport } from "@kip/agent-api";
import { StatusStream } from "./status-stream.ts";

const lists = { initContainers: [], containers: [], ephemeralContainers: [], events: [] };

/** The pod generations that a listener has received. */
function listener() {
  const stream = Object.assign(new PassThrough(), { respond: () => {} });
  const generations = (): number[] => {
    const text = String(stream.read() ?? "").trim();
    return text === "" ? [] : text.split("\n").map((line) => JSON.parse(line).generation);
  };
  return { stream: stream as unknown as ServerHttp2Stream, generations }; // the methods that are called
}

describe("StatusStream", () => {
  it("sends a change to all who listen, also to those before one that begins in the same turn", async () => {
    let generation = 1;
    using status = new StatusStream(() => ({ generation, ...lists }) as unknown as PodReport); // the fields that are read
    const [first, second] = [listener(), listener()];
    status.serve(first.stream);
    assert.deepEqual(first.generations(), [1]);
    generation = 2;
    status.changed();
    status.serve(second.stream);
    await setImmediate();
    assert.deepEqual([first.generations(), second.generations()], [[2], [2]]);
  });
});
