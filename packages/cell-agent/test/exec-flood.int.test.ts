// A pod of many containers with probes, and many commands in it at once, over TLS with an in-memory runtime.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout } from "node:timers/promises";
import { describe, it } from "node:test";
import { AgentError, type AgentClient, type PodReport } from "@kip/agent-api";
import { Cell } from "./cell.ts";
import { container, desiredPod } from "./desired-pod.ts";
import { report } from "./test-cell.ts";

const count = 30;
const execs = 200;
const atATime = 20;
const never = new AbortController().signal;

function isAllReady({ containers }: PodReport): boolean {
  return containers.length === count && containers.every(({ ready }) => ready);
}

async function runOne(client: AgentClient, index: number): Promise<void> {
  const stdout = new PassThrough();
  const printed = text(stdout);
  const command = ["say", `${index}`];
  const streams = { tty: false, stdout };
  const { exitCode } = await client.exec(`c${index % count}`, command, streams, never);
  assert.deepEqual([exitCode, await printed], [7, `${index}`]);
}

describe("an agent whose pod has many containers, under a flood of commands", () => {
  it("answers each, and keeps the pod ready", { timeout: 120_000 }, async () => {
    await using cell = await Cell.start();
    let running = 0;
    let most = 0;
    cell.runtime.execute = async ({ command: [what, word = ""] }, streams) => {
      if (what !== "say") return 0;
      most = Math.max(most, ++running);
      await setTimeout(10);
      streams.stdout?.write(word);
      running--;
      return 7;
    };
    const readinessProbe = { exec: { command: ["check"] }, periodSeconds: 1, timeoutSeconds: 60 };
    const client = await cell.connect();
    const containers = Array.from({ length: count }, (_, n) =>
      container(`c${n}`, { readinessProbe }),
    );
    await client.putPod(desiredPod({ containers }));
    await report(client, isAllReady);

    const stop = new AbortController();
    const seen: boolean[] = [];
    const watching = (async () => {
      for await (const one of client.status(stop.signal)) seen.push(isAllReady(one));
    })().catch(() => {});
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < execs) await runOne(client, next++);
    };
    await Promise.all([...Array.from({ length: atATime }, worker), client.info()]);
    stop.abort();
    await watching;

    assert.ok(most > 1 && most <= atATime, `${most} at once`);
    assert.ok(!seen.includes(false), "ready all the time");
  });

  it("still answers kip when clients have as many streams as they may have", async () => {
    await using cell = await Cell.start();
    let running = 0;
    const full = Promise.withResolvers<void>();
    cell.runtime.execute = async (_options, _streams, signal) => {
      running += 1;
      if (running === 250) full.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return 0;
    };
    const client = await cell.connect();
    await client.putPod(desiredPod({ containers: [container("c0")] }));
    await report(client, ({ containers: [c0] }) => c0?.running !== undefined);
    const left = new AbortController();
    const run = async (): Promise<string> =>
      await client.exec("c0", ["wait"], { tty: false }, left.signal).then(
        () => "ended",
        (error: unknown) => (AgentError.is(error, "AGENT_BUSY") ? "busy" : "aborted"),
      );
    const ends = Array.from({ length: 300 }, run);
    await full.promise;
    await client.info();
    await client.deletePod(1);
    left.abort();
    const all = await Promise.all(ends);
    const counts = ["busy", "aborted"].map((end) => all.filter((one) => one === end).length);
    assert.deepEqual(counts, [50, 250]);
  });

  it("moves bytes both ways through many commands at once", { timeout: 120_000 }, async () => {
    await using cell = await Cell.start();
    const bytes = 4 * 1024 * 1024;
    const zeros = (): Readable =>
      Readable.from(Array.from({ length: bytes / 65_536 }, () => Buffer.alloc(65_536)));
    const count = async (source: Readable | undefined): Promise<number> => {
      let sum = 0;
      for await (const piece of source ?? []) sum += (piece as Buffer).length;
      return sum;
    };
    const taken: number[] = [];
    cell.runtime.execute = async (_options, { stdin, stdout }) => {
      assert.ok(stdout);
      const [read] = await Promise.all([count(stdin), pipeline(zeros(), stdout)]);
      taken.push(read);
      return 0;
    };
    const client = await cell.connect();
    await client.putPod(desiredPod({ containers: [container("c0")] }));
    await report(client, ({ containers: [c0] }) => c0?.running !== undefined);
    const run = async (): Promise<number> => {
      const stdout = new PassThrough();
      const streams = { tty: false, stdin: zeros(), stdout };
      const [printed] = await Promise.all([
        count(stdout),
        client.exec("c0", ["swap"], streams, never),
      ]);
      return printed;
    };
    const commands = 20;
    const all = Array.from({ length: commands }, () => bytes);
    assert.deepEqual(await Promise.all(Array.from({ length: commands }, run)), all);
    assert.deepEqual(taken, all);
  });
});
