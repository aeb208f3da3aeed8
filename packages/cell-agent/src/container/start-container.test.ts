import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sandboxOf } from "./start-container.ts";

describe("sandboxOf()", () => {
  const own = { name: "pod", hostname: "web", ipcNamespace: "/ipc", cgroupParent: "/kip/pod" };

  it("takes the machine's own namespaces where the pod wants those of its node", () => {
    assert.deepEqual(sandboxOf({}, own), own);
    assert.deepEqual(sandboxOf({ hostPID: true }, own), {
      ...own,
      pidNamespace: "/proc/1/ns/pid",
    });
    assert.deepEqual(sandboxOf({ hostIPC: true }, own), {
      ...own,
      ipcNamespace: "/proc/1/ns/ipc",
      sharedMemoryDir: "/dev/shm",
    });
  });
});
