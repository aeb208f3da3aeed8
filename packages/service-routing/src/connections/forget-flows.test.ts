import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { forgetFlows } from "./forget-flows.ts";

const stale = [
  { address: "10.96.0.1", port: 53, serving: new Set<string>(), isUntranslatedStale: false },
];

/** A shell script in place of socat and the kernel. */
function script(text: string): readonly string[] {
  return ["sh", "-c", text];
}

describe("forgetFlows()", () => {
  it("reads a list that takes longer than the limit, as long as it goes on", async () => {
    const empty = String.raw`printf '\020\0\0\0\001\0\0\0\0\0\0\0\0\0\0\0'`;
    const done = String.raw`printf '\024\0\0\0\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'`;
    const inNamespace = script(`for i in 1 2 3 4 5; do ${empty}; sleep 1; done; ${done}`);
    assert.equal(await forgetFlows(stale, { inNamespace, timeoutMs: 4000 }), 0);
  });

  it("fails if no answer comes", async () => {
    const inNamespace = script("exec sleep 600");
    const failed = forgetFlows(stale, { inNamespace, timeoutMs: 50 });
    await assert.rejects(failed, { code: "COMMAND_FAILED" });
  });
});
