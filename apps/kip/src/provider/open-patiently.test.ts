import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createLogger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { ConfigFile } from "../config/config-file.ts";
import { Health } from "./health.ts";
import { openCloud, openPatiently } from "./open-patiently.ts";

function world(errors: readonly CloudError[]) {
  const clock = new ManualClock();
  const lines: string[] = [];
  const stop = new AbortController();
  let tries = 0;
  const open = async (): Promise<string> => {
    await setImmediate();
    const error = errors[tries++];
    if (error) throw error;
    return "the driver";
  };
  const logger = createLogger({ write: (line) => void lines.push(line) });
  const opened = openPatiently(open, { clock, logger, signal: stop.signal });
  opened.catch(() => {}); // checked below
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second <= seconds; second++) {
      for (let turn = 0; turn < 5; turn++) await setImmediate();
      await clock.advance(1000);
    }
  };
  return { opened, lines, stop, pass, tries: () => tries };
}

const away = new CloudError("CLOUD_UNAVAILABLE", "Cannot find the subnet: no answer");

describe("openPatiently()", () => {
  it("tries again while the cloud is away, every 30 seconds at last, and says why", async () => {
    const { opened, lines, pass, tries } = world(Array.from({ length: 40 }, () => away));
    await pass(600);
    assert.ok(tries() >= 20 && tries() < 40, `${tries()}`);
    assert.match(lines[0] ?? "", /the cloud does not answer.*Cannot find the subnet: no answer/);
    await pass(900);
    assert.equal(await opened, "the driver");
  });

  it("ends with what a person has to correct", async () => {
    const { opened, pass } = world([away, new CloudError("CLOUD_AUTH", "Cannot find the subnet")]);
    await pass(5);
    await assert.rejects(opened, { code: "CLOUD_AUTH" });
  });

  it("ends when kip is asked to end", async () => {
    const { opened, stop, pass, tries } = world(Array.from({ length: 40 }, () => away));
    await pass(10);
    stop.abort(new Error("SIGTERM received"));
    const before = tries();
    await assert.rejects(opened, /SIGTERM/);
    await pass(60);
    assert.equal(tries(), before);
  });
});

describe("openCloud()", () => {
  it("reads the file before each try, so that a wrong address in it can be corrected", async () => {
    using folder = temporaryFolder();
    const name = path.join(folder.path, "provider.yaml");
    const write = (region: string): void =>
      writeFileSync(
        name,
        `cloud:\n  aws: {region: ${region}, subnetID: subnet-1, endpointURL: "http://127.0.0.1:1", accessKeyID: a, secretAccessKey: b}\n`,
      );
    write("us-east-1");
    const waits = Promise.withResolvers<void>();
    const logger = createLogger({ write: () => waits.resolve() });
    const file = await ConfigFile.open(name, logger);
    const health = new Health();
    const stop = new AbortController();
    const kept: AbortSignal[] = [];
    const keepNode = async (until: AbortSignal): Promise<void> => void kept.push(until);
    const needs = { file, logger, health, signal: stop.signal, keepNode };
    const opened = openCloud(needs, { clusterID: "c", term: undefined });
    await Promise.race([waits.promise, opened]);
    assert.deepEqual([health.doing, health.isReady], ["opening the cloud", false]);
    assert.deepEqual(
      kept.map(({ aborted }) => aborted),
      [false],
      "the node is kept meanwhile",
    );
    write("us-east-9");
    const late = setTimeout(() => stop.abort(new Error("the old file")), 20_000);
    await assert.rejects(opened, /us-east-9/);
    clearTimeout(late);
    assert.deepEqual(
      kept.map(({ aborted }) => aborted),
      [true],
    );
  });
});
