import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import type { ApiClient } from "../client/api-client.ts";
import { createEventRecorder, type EventReference } from "./event-recorder.ts";

const clock: Clock = { now: () => 1e12, monotonic: () => 0, sleep: () => Promise.resolve() };
const about: EventReference = {
  apiVersion: "v1",
  kind: "Pod",
  namespace: "ns",
  name: "web",
  uid: "u1",
};

interface Written {
  readonly method: string;
  readonly path: string;
  readonly body: { readonly count?: number; readonly message?: string };
}

function recorderWith(failures: Error[] = []) {
  const written: Written[] = [];
  const call = (method: string) => async (path: string, body: Written["body"]) => {
    const failure = failures.shift();
    if (failure) throw failure;
    written.push({ method, path, body });
  };
  // The only calls that a recorder uses.
  const client = { create: call("create"), patch: call("patch") } as unknown as ApiClient;
  const lines: string[] = [];
  const logger = createLogger({ level: "debug", write: (line) => void lines.push(line) });
  const options = { client, component: "kubelet", host: "node", logger, clock };
  const levels = (): readonly unknown[] =>
    lines.map((line) => (JSON.parse(line) as { readonly level: string }).level);
  return { written, levels, recorder: createEventRecorder(options) };
}

describe("createEventRecorder()", () => {
  it("counts equal events instead of writing them again", async () => {
    const { written, recorder } = recorderWith();
    const event = { type: "Warning", reason: "BackOff", message: "again" } as const;
    recorder.record(about, event);
    await recorder.flush();
    recorder.record(about, event);
    recorder.record(about, event);
    recorder.record(about, { ...event, message: "another" });
    await recorder.flush();
    assert.deepEqual(
      written.map(({ method, body }) => [method, body.count]),
      [
        ["create", 1],
        ["patch", 3],
        ["create", 1],
      ],
    );
    assert.match(written[0]?.path ?? "", /^\/api\/v1\/namespaces\/ns\/events$/);
  });

  it("writes a new event when the old one has expired, and repeats what may succeed later", async () => {
    const failures: Error[] = [];
    const { written, recorder } = recorderWith(failures);
    const event = { type: "Normal", reason: "Pulled", message: "x" } as const;
    recorder.record(about, event);
    await recorder.flush();
    failures.push(
      new K8sError("K8S_NOT_FOUND", "expired"),
      new K8sError("K8S_UNAVAILABLE", "later", { retryable: true }),
    );
    recorder.record(about, event);
    await recorder.flush();
    // The patch finds nothing, and the creation fails once. After that there was no object to patch.
    assert.equal(written.filter(({ method }) => method === "create").length >= 1, true);
    assert.equal(written.at(-1)?.body.count, 2);
  });

  it("keeps one object from flooding the server", async () => {
    const { written, recorder } = recorderWith();
    for (let index = 0; index < 100; index++)
      recorder.record(about, { type: "Normal", reason: "R", message: `m${index}` });
    recorder.record({ ...about, uid: "u2" }, { type: "Normal", reason: "R", message: "m" });
    await recorder.flush();
    assert.equal(written.length, 26);
  });

  it("cuts long messages", async () => {
    const { written, recorder } = recorderWith();
    recorder.record(about, { type: "Normal", reason: "R", message: "x".repeat(5000) });
    await recorder.flush();
    assert.equal(written[0]?.body.message?.length, 1024);
  });

  it("does not warn of events whose namespace is being deleted, or gone", async () => {
    const causes = [{ reason: "NamespaceTerminating", field: "metadata.namespace" }];
    const terminating = { kind: "Status", code: 403, details: { causes } };
    const { levels, recorder } = recorderWith([
      new K8sError("K8S_FORBIDDEN", "being terminated", { status: terminating }),
      new K8sError("K8S_NOT_FOUND", "no such namespace"),
      new K8sError("K8S_FORBIDDEN", "no permission", { status: { kind: "Status" } }),
    ]);
    for (const message of ["a", "b", "c"]) {
      recorder.record(about, { type: "Normal", reason: "Killing", message });
      await recorder.flush();
    }
    assert.deepEqual(levels(), ["debug", "debug", "warn"]);
  });

  it("warns once while it drops events that the server does not take", async () => {
    const { levels, recorder } = recorderWith();
    for (let index = 0; index < 10_500; index++)
      recorder.record(
        { ...about, uid: `u${index}` },
        { type: "Normal", reason: "R", message: "m" },
      );
    assert.deepEqual(levels(), ["warn"]);
    await recorder.flush();
  });
});
