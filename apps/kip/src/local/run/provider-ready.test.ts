import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { isCodedError, systemClock } from "@kip/base";
import { SupervisedProgram } from "@kip/control-plane";
import { temporaryFolder } from "@kip/testing";
import { providerReady } from "./provider-ready.ts";

const never = async (limit: AbortSignal): Promise<void> =>
  await new Promise((_resolve, reject) =>
    limit.addEventListener("abort", () => reject(new Error("over")), { once: true }),
  );

describe("providerReady()", () => {
  it("fails with the last failure of a provider that ends repeatedly", async () => {
    using folder = temporaryFolder();
    const logFile = path.join(folder.path, "kip.log");
    const script = `echo '{"msg":"x"}'; echo 'kip: Cannot listen on port 10250: EADDRINUSE'; echo '     Stop what holds it'; exit 1`;
    await using provider = new SupervisedProgram(
      {
        name: "provider",
        file: "/bin/sh",
        args: ["-c", script],
        env: {},
        logFile,
        logLimitBytes: 10_000,
      },
      systemClock,
    );
    void provider.start();
    provider.supervise(() => {});
    const { signal } = new AbortController();
    const ready = providerReady({ failing: provider.failing, logFile, signal }, never);
    await assert.rejects(ready, (error) => {
      assert.ok(isCodedError(error));
      assert.equal(
        error.message,
        "Cannot start the provider: Cannot listen on port 10250: EADDRINUSE",
      );
      assert.equal(error.remedy, `Stop what holds it. See ${logFile}`);
      return true;
    });
  });

  it("is over when the provider is ready, and when it is called off", async () => {
    const failing = new Promise<never>(() => {});
    const { signal } = new AbortController();
    await providerReady({ failing, logFile: "none.log", signal }, async () => {});
    const off = AbortSignal.abort(new Error("SIGTERM received"));
    await assert.rejects(
      providerReady({ failing, logFile: "none.log", signal: off }, async (limit) =>
        limit.throwIfAborted(),
      ),
      /SIGTERM/,
    );
  });
});
