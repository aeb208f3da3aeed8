import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { after, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { AgentError, type AgentClient, type PodReport } from "@kip/agent-api";
import { LogArchive } from "./log-archive.ts";

const root = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
const archive = new LogArchive(root, silentLogger);
const uid = "0b1c2d3e-0000-4000-8000-00000000000a";
const all = { follow: false, previous: false, timestamps: false };

describe("LogArchive.read()", () => {
  after(() => rmSync(root, { recursive: true }));
  mkdirSync(path.join(root, uid));
  writeFileSync(
    path.join(root, uid, "main.log"),
    "2026-01-01T00:00:00Z one\n2026-01-01T00:00:10Z two words\n2026-01-01T00:00:20Z \n",
  );

  const read = async (
    options: Partial<Parameters<LogArchive["read"]>[2]>,
  ): Promise<string | undefined> => {
    const stream = await archive.read(uid, "main", { ...all, ...options });
    return stream && (await text(stream));
  };

  it("gives the lines without their times", async () =>
    assert.equal(await read({}), "one\ntwo words\n\n"));
  it("gives the times when asked", async () =>
    assert.match((await read({ timestamps: true })) ?? "", /^2026-01-01T00:00:00Z one\n/));
  it("gives the last lines", async () =>
    assert.equal(await read({ tailLines: 2 }), "two words\n\n"));
  it("gives no line for a tail of 0", async () => assert.equal(await read({ tailLines: 0 }), ""));
  it("cuts at a number of bytes", async () =>
    assert.equal(await read({ limitBytes: 6 }), "one\ntw"));
  it("starts at a time", async () =>
    assert.equal(await read({ sinceTimeMs: Date.parse("2026-01-01T00:00:10Z") }), "two words\n\n"));
  it("says when it has none", async () => {
    assert.equal(await archive.read(uid, "other", all), undefined);
    assert.equal(await read({ previous: true }), undefined);
  });
});

describe("LogArchive, with a folder that cannot be written", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
  after(() => rmSync(folder, { recursive: true }));
  const root = path.join(folder, "file");
  writeFileSync(root, "in the way");
  const empty = { initContainers: [], containers: [], ephemeralContainers: [] };

  it("says so when it saves, by a code", async () => {
    await assert.rejects(
      new LogArchive(root, silentLogger).save(
        uid,
        {} as AgentClient, // is asked for nothing
        empty as unknown as PodReport, // the fields that are read
        new AbortController().signal,
      ),
      { code: "LOG_ARCHIVE_FAILED" },
    );
  });

  it("logs a removal that fails, and goes on", async () => {
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
    await new LogArchive(root, logger).remove(uid);
    assert.deepEqual(warnings, ["Could not remove the logs of a finished pod"]);
  });
});

describe("LogArchive.save()", () => {
  it("leaves no piece of a log that breaks off", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
    after(() => rmSync(folder, { recursive: true }));
    const agent = {
      logs: async () =>
        Readable.from(
          (function* (): Generator<Buffer> {
            yield Buffer.from("2026-01-01T00:00:00Z one\n");
            throw new Error("connection lost");
          })(),
        ),
    } as unknown as AgentClient; // the calls that are made
    const containers = [{ name: "main", terminated: { exitCode: 0 } }];
    const report = { initContainers: [], containers, ephemeralContainers: [] };
    const logs = new LogArchive(folder, silentLogger);
    await assert.rejects(
      logs.save(uid, agent, report as unknown as PodReport, new AbortController().signal),
      { code: "AGENT_UNREACHABLE", retryable: true },
    );
    assert.deepEqual(readdirSync(path.join(folder, uid)), []);
    assert.equal(await logs.read(uid, "main", all), undefined);
  });
});

describe("LogArchive.save() of several containers", () => {
  const names = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
  const report = {
    initContainers: [],
    containers: names.map((name) => ({ name, terminated: { exitCode: 0 } })),
    ephemeralContainers: [],
  } as unknown as PodReport; // the fields that are read
  const never = new AbortController().signal;

  it("saves what it can, and the rest over another connection", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
    after(() => rmSync(folder, { recursive: true }));
    const logs = new LogArchive(folder, silentLogger);
    const asked: string[] = [];
    let isLost = false;
    const agent = {
      logs: async (container: string) => {
        asked.push(container);
        isLost ||= container === "six";
        if (isLost) throw new AgentError("AGENT_UNREACHABLE", "gone", { retryable: true });
        return Readable.from([Buffer.from(container)]);
      },
    } as unknown as AgentClient; // the calls that are made
    await assert.rejects(logs.save(uid, agent, report, never), { code: "AGENT_UNREACHABLE" });
    const saved = readdirSync(path.join(folder, uid));
    assert.ok(saved.length > 0 && saved.length < names.length, `${saved.length} logs`);
    const again = asked.length;
    const next = {
      logs: async (name: string) => (asked.push(name), Readable.from([Buffer.from(name)])),
    };
    await logs.save(uid, next as unknown as AgentClient, report, never);
    assert.equal(asked.length - again, names.length - saved.length, "only what was missing");
    assert.deepEqual(
      readdirSync(path.join(folder, uid)).sort(),
      names.map((name) => `${name}.log`).sort(),
    );
  });

  it("leaves out a log that the agent does not have", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
    after(() => rmSync(folder, { recursive: true }));
    const agent = {
      logs: async (name: string) => {
        if (name === "one") throw new AgentError("AGENT_CONTAINER_UNKNOWN", "unknown");
        return Readable.from([Buffer.from(name)]);
      },
    } as unknown as AgentClient; // the calls that are made
    await new LogArchive(folder, silentLogger).save(uid, agent, report, never);
    assert.equal(readdirSync(path.join(folder, uid)).length, names.length - 1);
  });

  it("fetches a few logs at a time", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
    after(() => rmSync(folder, { recursive: true }));
    let [open, most] = [0, 0];
    const agent = {
      logs: async (name: string) => {
        most = Math.max(most, ++open);
        const log = Readable.from([Buffer.from(name)]);
        log.once("close", () => open--);
        return log;
      },
    } as unknown as AgentClient; // the calls that are made
    await new LogArchive(folder, silentLogger).save(uid, agent, report, never);
    assert.ok(most >= 1 && most <= 4, `${most} at a time`);
  });
});

describe("LogArchive, of names that others choose", () => {
  it("hostile cell: touches nothing outside of a pod's folder", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
    after(() => rmSync(folder, { recursive: true }));
    mkdirSync(path.join(folder, "logs", "audit"), { recursive: true });
    const logs = new LogArchive(path.join(folder, "logs"), silentLogger);
    const asked: unknown[] = [];
    const agent = {
      logs: async (_container: string, options: unknown) => {
        asked.push(options);
        return Readable.from([Buffer.from("x".repeat(12 * 1024 * 1024))]);
      },
    } as unknown as AgentClient; // the calls that are made
    const ended = { terminated: { exitCode: 0 } };
    const report = {
      initContainers: [],
      containers: [
        { name: "../../evil", ...ended },
        { name: "good", ...ended },
      ],
      ephemeralContainers: [],
    } as unknown as PodReport; // the fields that are read
    await logs.save(uid, agent, report, new AbortController().signal);
    // The end of a log shows why a pod has failed.
    const tailBytes = 10 * 1024 * 1024;
    assert.deepEqual(asked, [{ timestamps: true, previous: false, tailBytes, isForKip: true }]);
    assert.deepEqual(readdirSync(folder), ["logs"]);
    assert.deepEqual(readdirSync(path.join(folder, "logs", uid)), ["good.log"]);
    assert.equal(statSync(path.join(folder, "logs", uid, "good.log")).size, 10 * 1024 * 1024);
    assert.deepEqual(await logs.pods(), [uid]);
    await logs.remove("audit");
    await logs.remove("");
    assert.deepEqual(readdirSync(path.join(folder, "logs")).sort(), [uid, "audit"]);
  });
});

describe("LogArchive, of many pods", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
  after(() => rmSync(folder, { recursive: true }));
  const uidOf = (pod: number): string => uid.slice(0, -1) + pod;
  const log = "2026-01-01T00:00:00Z x\n".repeat(1000);
  // Only this is called.
  const agent = { logs: async () => Readable.from([Buffer.from(log)]) } as unknown as AgentClient;
  const report = (containers: number): PodReport => {
    const ended = Array.from({ length: containers }, (_, at) => ({
      name: `c${at}`,
      terminated: {},
    }));
    return {
      initContainers: [],
      containers: ended,
      ephemeralContainers: [],
    } as unknown as PodReport;
  };
  const limit = 25 * (log.length + 4096);

  it("removes the logs of those that finished first where all take too much, also after a restart", async () => {
    const { signal } = new AbortController();
    for (let pod = 1; pod <= 4; pod++)
      await new LogArchive(folder, silentLogger, limit).save(uidOf(pod), agent, report(10), signal);
    assert.deepEqual(readdirSync(folder).sort(), [uidOf(3), uidOf(4)]);
  });

  it("hostile pod: one of many containers does not cost smaller ones their logs", async () => {
    const { signal } = new AbortController();
    await new LogArchive(folder, silentLogger, limit).save(uidOf(5), agent, report(100), signal);
    assert.deepEqual(readdirSync(folder).sort(), [uidOf(4), uidOf(5)]);
    const sizes = readdirSync(path.join(folder, uidOf(5))).map(
      (name) => statSync(path.join(folder, uidOf(5), name)).size,
    );
    assert.ok(sizes.length >= 15 && sizes.length < 25, `${sizes.length}`);
    assert.ok(sizes.reduce((sum, size) => sum + size, 0) <= limit);
  });
});
