// What a pod may rely on because every kubelet does it so, with a runtime in memory.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Cell } from "./cell.ts";
import { container, desiredPod } from "./desired-pod.ts";
import { report } from "./test-cell.ts";

const limit = { timeout: 30_000 };

describe("volumes", limit, () => {
  it("with files of ConfigMaps and Secrets are read-only, whatever the mount says", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const mounts = [
      { name: "config", mountPath: "/config", readOnly: false },
      { name: "scratch", mountPath: "/scratch" },
    ];
    const volumes = [
      { name: "config", kind: "files" as const, files: [] },
      { name: "scratch", kind: "emptyDir" as const },
    ];
    await client.putPod(desiredPod({ containers: [container("web", { mounts })], volumes }));
    await report(client, (one) => one.phase === "Running");
    const [spec] = cell.runtime.specs.values();
    const isReadOnly = (path: string) =>
      spec?.mounts.find(({ destination }) => destination === path)?.readOnly;
    assert.deepEqual([isReadOnly("/config"), isReadOnly("/scratch")], [true, false]);
  });
});
