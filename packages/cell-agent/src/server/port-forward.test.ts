import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { dialCommand } from "./port-forward.ts";

describe("dialCommand()", () => {
  it("port-forward SSRF: dials a port of the pod's own network namespace, and no address that anybody names", () => {
    const words = dialCommand("/run/netns/pod", 8080);
    assert.deepEqual(words.slice(0, 2), ["/usr/bin/nsenter", "--net=/run/netns/pod"]);
    assert.deepEqual(words.slice(-2), ["STDIO", "TCP4:127.0.0.1:8080"]);
  });
});
