import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { startProgress } from "./task-progress.ts";

class Output {
  readonly columns = 40;
  readonly isTTY: boolean;
  text = "";

  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.text += text;
  }

  /** The lines that a terminal would show. */
  get screen(): readonly string[] {
    const lines: string[] = [];
    let at = 0;
    for (const line of this.text.split("\n").slice(0, -1)) {
      // oxlint-disable-next-line no-control-regex -- the display writes these control characters
      const [, up = "0", content = ""] = /^(?:\u001B\[(\d+)A)?\u001B\[2K(.*)$/.exec(line) ?? [];
      at -= Number(up);
      lines[at++] = content;
    }
    return lines;
  }
}

async function start(isTTY: boolean) {
  const [output, clock] = [new Output(isTTY), new ManualClock()];
  const progress = startProgress({ output, clock });
  const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const reports: ((text: string) => void)[] = [];
  const works = ends.map(async ({ promise }, at) =>
    progress.run(at === 0 ? "Kubernetes" : "Image", async (report) => {
      reports.push(report);
      await promise;
    }),
  );
  await Promise.resolve();
  return { output, clock, progress, ends, reports, works };
}

describe("startProgress()", () => {
  it("has a line for each task on a terminal, drawn in its place", async () => {
    const { output, clock, progress, ends, reports, works } = await start(true);
    reports[0]?.("Compiling\u001B[31m etcd");
    await clock.advance(12_000);
    assert.deepEqual(output.screen, [
      "Kubernetes   12 s  Compiling[31m etcd",
      "Image        12 s  …",
    ]);
    ends[1].resolve();
    await works[1];
    reports[0]?.("Linking a program whose name is longer than the terminal");
    await clock.advance(5000);
    assert.deepEqual(output.screen, [
      "Kubernetes   17 s  Linking a program wh",
      "Image        12 s  ready",
    ]);
    const failure = works[0];
    ends[0].reject(new Error("no space left"));
    await assert.rejects(failure ?? Promise.resolve(), /no space left/);
    assert.match(output.screen[0] ?? "", /^Kubernetes +17 s {2}failed$/);
    await progress[Symbol.asyncDispose]();
    assert.equal(clock.sleepers, 0);
  });

  it("has the first line of each task in a log, then one every 30 s, and none of a task without work", async () => {
    const { output, clock, progress, ends, reports, works } = await start(false);
    reports[0]?.("Fetching");
    for (let line = 0; line < 29; line++) {
      reports[0]?.(`Compiling ${line}`);
      await clock.advance(1000);
    }
    assert.equal(output.text, "[  0 s] Kubernetes: Fetching\n");
    await clock.advance(1000);
    ends[1].resolve();
    await clock.advance(30_000);
    ends[0].resolve();
    await Promise.all(works);
    await progress[Symbol.asyncDispose]();
    assert.equal(
      output.text,
      `[  0 s] Kubernetes: Fetching
[ 30 s] Not ready yet: Kubernetes (Compiling 28)
[ 60 s] Not ready yet: Kubernetes (Compiling 28)
[ 60 s] Kubernetes: ready after 60 s
`,
    );
  });
});
