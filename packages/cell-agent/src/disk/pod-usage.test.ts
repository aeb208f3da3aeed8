import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { noPod } from "../state/pod-state.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { allFolders, podFolders } from "./pod-usage.ts";

describe("podFolders()", () => {
  it("counts runs that have ended as long as something is left of them", () => {
    const folders = podFolders({ ...noPod, leftovers: ["1"] }, agentDirectories("/disk", "/run"));
    assert.deepEqual(allFolders(folders), ["/disk/pod", "/disk/containers/1"]);
  });
});
