import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import * as fc from "fast-check";
import { K8sError } from "../errors.ts";
import type { KubeObject } from "../client/api-client.ts";
import { readWatchEvents, type WatchEvent } from "./watch-events.ts";

async function read(chunks: readonly (string | Buffer)[]): Promise<WatchEvent<KubeObject>[]> {
  const body = Readable.from(chunks.map((chunk) => Buffer.from(chunk)));
  const events: WatchEvent<KubeObject>[] = [];
  await readWatchEvents<KubeObject>(body, "/x", (event) => events.push(event));
  return events;
}

describe("readWatchEvents()", () => {
  it("reads events however the bytes are cut", async () => {
    const events = [
      { type: "ADDED", object: { metadata: { name: "ä-日本" } } },
      { type: "BOOKMARK", object: { metadata: { resourceVersion: "7" } } },
    ];
    const bytes = Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(""));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 9 }), async (cuts) => {
        const ends = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        const chunks = ends.slice(1).map((end, index) => bytes.subarray(ends[index], end));
        assert.deepEqual(await read(chunks), events);
      }),
      { numRuns: 100 },
    );
  });

  it("throws the error of an ERROR line", async () => {
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old" };
    const line = `${JSON.stringify({ type: "ERROR", object: status })}\n`;
    await assert.rejects(read([line]), (error) => K8sError.is(error, "K8S_GONE"));
  });

  it("quotes nothing of a line that is not JSON, which may be a Secret", async () => {
    await assert.rejects(read(['{"type":"ADDED","object":{"data":hidden}}\n']), (error) => {
      assert.doesNotMatch(inspect(error), /hidden/);
      return K8sError.is(error, "K8S_UNAVAILABLE");
    });
  });

  it("rejects a line that is not a valid event", async () => {
    const isUnavailable = (error: unknown): boolean => K8sError.is(error, "K8S_UNAVAILABLE");
    await assert.rejects(read(["<html>\n"]), isUnavailable);
    const lines = ["null", "1", "[]", '{"type":"ADDED"}', '{"type":"MODIFIED","object":null}'];
    for (const line of ['{"type":"WHAT"}', '{"type":"BOOKMARK","object":7}', ...lines])
      await assert.rejects(read([`${line}\n`]), isUnavailable, line);
  });

  it("drops a last line that the server did not finish", async () => {
    assert.deepEqual(await read(['{"type":"ADD']), []);
  });
});
