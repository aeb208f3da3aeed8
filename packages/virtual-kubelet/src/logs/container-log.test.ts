import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import * as fc from "fast-check";
import type { LogOptions } from "../pod-provider.ts";
import { ContainerLog } from "./container-log.ts";

const all: LogOptions = { follow: false, previous: false, timestamps: false };
const startMs = Date.UTC(2030, 0, 1);

/** A log of `out 1`, `err 2`, `out 3`, one second apart, and its clock's time. */
function threeLines(): { readonly log: ContainerLog; readonly clock: { nowMs: number } } {
  const clock = { nowMs: startMs };
  const log = new ContainerLog({ clock: { now: () => clock.nowMs } });
  for (const [stream, line] of [
    ["Stdout", "out 1\n"],
    ["Stderr", "err 2\n"],
    ["Stdout", "out 3\n"],
  ] as const) {
    log.write(stream, line);
    clock.nowMs += 1000;
  }
  return { log, clock };
}

async function read(log: ContainerLog, options: Partial<LogOptions>): Promise<string> {
  return await text(log.read({ ...all, ...options }, new AbortController().signal));
}

describe("ContainerLog", () => {
  const cases: readonly (readonly [string, Partial<LogOptions>, string])[] = [
    ["everything", {}, "out 1\nerr 2\nout 3\n"],
    ["the last lines", { tailLines: 2 }, "err 2\nout 3\n"],
    ["no lines", { tailLines: 0 }, ""],
    ["more lines than there are", { tailLines: 9 }, "out 1\nerr 2\nout 3\n"],
    ["what came since", { sinceTimeMs: startMs + 1000 }, "err 2\nout 3\n"],
    ["the last lines since", { sinceTimeMs: startMs + 1000, tailLines: 1 }, "out 3\n"],
    ["one stream", { stream: "Stderr" }, "err 2\n"],
    ["so many bytes", { limitBytes: 8 }, "out 1\ner"],
    ["times", { timestamps: true, tailLines: 1 }, "2030-01-01T00:00:02.000Z out 3\n"],
  ];
  for (const [name, options, expected] of cases)
    it(`gives ${name}`, async () => assert.equal(await read(threeLines().log, options), expected));

  it("follows to the end, starting with the last lines", async () => {
    const { log } = threeLines();
    const following = read(log, { follow: true, tailLines: 1 });
    await setImmediate();
    log.write("Stdout", "out");
    await setImmediate();
    log.write("Stdout", " 4\n");
    log.end();
    assert.equal(await following, "out 3\nout 4\n");
    assert.equal(await read(log, { follow: true, tailLines: 1 }), "out 4\n");
  });

  it("releases a follower that disconnects", async () => {
    const left = new AbortController();
    const following = text(threeLines().log.read({ ...all, follow: true }, left.signal));
    await setImmediate();
    left.abort();
    assert.equal(await following, "out 1\nerr 2\nout 3\n");
  });

  it("keeps the newest lines within its limit", async () => {
    const log = new ContainerLog({ clock: { now: () => startMs }, maxBytes: 10_000 });
    for (let number = 0; number < 1000; number++) log.write("Stdout", `line ${number}\n`);
    const lines = (await read(log, {})).trimEnd().split("\n");
    assert.equal(lines.at(-1), "line 999");
    assert.ok(lines.length > 40 && lines.length < 80, `${lines.length} lines`);
  });

  it("returns each stream byte by byte as it was written", async () => {
    const chunk = fc.tuple(
      fc.constantFrom("Stdout" as const, "Stderr" as const),
      fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 8 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(chunk, { maxLength: 20 }), async (chunks) => {
        const log = new ContainerLog({ clock: { now: () => startMs } });
        for (const [stream, output] of chunks) log.write(stream, output);
        for (const wanted of ["Stdout", "Stderr"] as const) {
          const written = chunks
            .filter(([stream]) => stream === wanted)
            .map(([, output]) => output);
          assert.equal(await read(log, { stream: wanted }), written.join(""));
        }
      }),
    );
  });
});
