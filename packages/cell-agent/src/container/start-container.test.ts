import assert from "node:assert/strict";
import { hostname } from "node:os";
import { describe, it } from "node:test";
import type { StoredImage } from "@kip/oci-image";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { describeRun, sandboxOf } from "./start-container.ts";

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

  it("takes the machine's name with its network, as its kernel has that one", () => {
    assert.equal(sandboxOf({ hostNetwork: true }, own).hostname, hostname());
  });
});

describe("describeRun()", () => {
  const signal = (ofImage?: string, stopSignal?: string): string => {
    const image = { repoDigest: "", config: { stopSignal: ofImage } } as unknown as StoredImage; // the fields that are read
    const directories = agentDirectories("/s", "/r");
    const own = container("a", { stopSignal });
    return describeRun({ pod: desiredPod(), container: own, image, attempt: 0, directories })
      .stopSignal;
  };

  it("takes the container's stop signal before the image's", () => {
    assert.equal(signal(), "SIGTERM");
    assert.equal(signal("QUIT"), "SIGQUIT");
    assert.equal(signal("SIGRTMIN+3"), "SIGRTMIN+3");
    assert.equal(signal("9"), "SIGKILL");
    assert.equal(signal("SIGQUIT", "SIGUSR1"), "SIGUSR1");
  });

  it("writes the image's stop signal as crun knows it", () => {
    const names = ["sigquit", "Int", "rtmin+3", "6", "SIGIOT", "iot", "29", "SIGPOLL", "15"];
    const known = ["QUIT", "INT", "RTMIN+3", "ABRT", "ABRT", "ABRT", "IO", "IO", "TERM"];
    assert.deepEqual(
      names.map((name) => signal(name)),
      known.map((name) => `SIG${name}`),
    );
    // Kernel numbers of signals without a name here.
    assert.equal(signal("37"), "37");
    assert.equal(signal("SIGNONE"), "SIGNONE");
  });
});
