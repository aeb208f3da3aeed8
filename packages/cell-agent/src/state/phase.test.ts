import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { container } from "../../test/desired-pod.ts";
import type { DraftRecord } from "../../test/draft.ts";
import { newRecord, type ContainerKind, type ContainerRecord } from "./container-record.ts";
import { podPhase } from "./phase.ts";

/** "run", "new", or an exit code. */
function record(
  state: "run" | "new" | number,
  kind: ContainerKind = "main",
  restartPolicy?: string,
): ContainerRecord {
  const one: DraftRecord = newRecord(container("a", { restartPolicy }), kind);
  if (state === "new") return one;
  one.saved.started = state === "run";
  one.saved.run = {
    id: "a",
    attempt: 0,
    image: "",
    imageId: "",
    stopSignal: "",
    logDirectory: "",
    startedAtMs: 1,
    ...(state !== "run" && { exit: { exitCode: state, reason: "", finishedAt: "" } }),
  };
  return one;
}

describe("podPhase()", () => {
  const rows: readonly (readonly [
    string,
    Parameters<typeof podPhase>[0],
    ContainerRecord[],
    boolean,
    string,
  ])[] = [
    ["nothing has run", "Always", [record("new")], false, "Pending"],
    ["one runs, one has not yet", "Always", [record("run"), record("new")], false, "Pending"],
    ["all run", "Always", [record("run"), record("run")], false, "Running"],
    ["one runs, one has ended", "Never", [record("run"), record(1)], false, "Running"],
    ["all ended well", "Never", [record(0), record(0)], false, "Succeeded"],
    ["all ended well, to be restarted", "Always", [record(0)], false, "Running"],
    ["one failed", "Never", [record(0), record(1)], false, "Failed"],
    ["one failed, to be restarted", "OnFailure", [record(0), record(1)], false, "Running"],
    ["all ended well on failure", "OnFailure", [record(0)], false, "Succeeded"],
    [
      "all ended, one is debugged",
      "Never",
      [record(0), record("run", "ephemeral")],
      false,
      "Running",
    ],
    [
      "all ended, one was debugged",
      "Never",
      [record(0), record(1, "ephemeral")],
      false,
      "Succeeded",
    ],
    ["init runs", "Always", [record("run", "init"), record("new")], false, "Pending"],
    ["init failed for good", "Never", [record(1, "init"), record("new")], false, "Failed"],
    [
      "init failed for good, a sidecar still runs",
      "Never",
      [record("run", "sidecar"), record(1, "init"), record("new")],
      false,
      "Pending",
    ],
    ["init failed", "Always", [record(1, "init"), record("new")], false, "Pending"],
    [
      "a sidecar has not started",
      "Always",
      [record("new", "sidecar"), record("new")],
      false,
      "Pending",
    ],
    ["one of its own policy restarts", "Never", [record(1, "main", "OnFailure")], false, "Running"],
    [
      "all may not run again by their own policy",
      "Always",
      [record(1, "main", "Never")],
      false,
      "Failed",
    ],
    [
      "all ended well by their own policy",
      "Always",
      [record(0, "main", "Never")],
      false,
      "Succeeded",
    ],
    [
      "init failed and restarts by its own policy",
      "Never",
      [record(1, "init", "OnFailure"), record("new")],
      false,
      "Pending",
    ],
    ["a sidecar still runs", "Never", [record("run", "sidecar"), record(0)], false, "Running"],
    ["deleted, still running", "Always", [record("run")], true, "Running"],
    ["deleted, ended well", "Always", [record(0)], true, "Succeeded"],
    ["deleted, killed", "Always", [record(137)], true, "Failed"],
    ["deleted before it ran", "Always", [record("new")], true, "Failed"],
  ];
  for (const [name, policy, containers, isEnding, phase] of rows) {
    it(`is ${phase} when: ${name} (${policy})`, () => {
      assert.equal(podPhase(policy, containers, isEnding), phase);
    });
  }
});
