import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { isKipError, silentLogger, systemClock } from "@kip/base";
import { lastWords } from "./last-words.ts";
import { providerReady } from "./provider-ready.ts";
import { superviseChild } from "./supervised-child.ts";

const folder = mkdtempSync(path.join(tmpdir(), "kip-provider-"));
after(() => rmSync(folder, { recursive: true }));
const never = async (limit: AbortSignal): Promise<void> =>
  await new Promise((_resolve, reject) =>
    limit.addEventListener("abort", () => reject(new Error("over")), { once: true }),
  );

describe("providerReady()", () => {
  it("fails with the last words of a provider that ends again and again", async () => {
    const log = path.join(folder, "kip.log");
    writeFileSync(log, "kip: Cannot of an earlier run\n");
    const since = readFileSync(log).length;
    const script = `echo '{"msg":"x"}'; echo 'kip: Cannot listen on port 10250: EADDRINUSE'; echo '     Stop what holds it'; exit 1`;
    await using child = superviseChild({
      name: "provider",
      command: "/bin/sh",
      args: ["-c", script],
      env: {},
      logFile: log,
      clock: systemClock,
      logger: silentLogger,
    });
    const ready = providerReady(child, { log, since }, new AbortController().signal, never);
    await assert.rejects(ready, (error) => {
      assert.ok(isKipError(error));
      assert.equal(
        error.message,
        "Cannot start the provider: Cannot listen on port 10250: EADDRINUSE",
      );
      assert.equal(error.remedy, `Stop what holds it. See ${log}`);
      return true;
    });
  });

  it("is over when the provider is ready, and when it is called off", async () => {
    const provider = { failing: new Promise<string>(() => {}) };
    const words = { log: path.join(folder, "none.log"), since: 0 };
    await providerReady(provider, words, new AbortController().signal, async () => {});
    const off = AbortSignal.abort(new Error("SIGTERM received"));
    await assert.rejects(
      providerReady(provider, words, off, async (limit) => limit.throwIfAborted()),
      /SIGTERM/,
    );
  });
});

describe("lastWords()", () => {
  it("falls back to the last line, and never looks at an earlier run", async () => {
    const file = path.join(folder, "words.log");
    writeFileSync(file, "kip: earlier\n");
    assert.equal(await lastWords(file, 13), undefined);
    writeFileSync(file, "kip: earlier\nSegmentation fault\n\n");
    assert.deepEqual(await lastWords(file, 13), {
      message: "Segmentation fault",
      remedy: undefined,
    });
  });
});
