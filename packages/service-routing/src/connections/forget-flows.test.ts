import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { listRequest } from "./conntrack-messages.ts";
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

  it("asks for all connections if the kernel refuses to list those of UDP alone, and fails if it lists none", async () => {
    const refusal = String.raw`printf '\044\0\0\0\002\0\0\0\0\0\0\0\0\0\0\0\352\377\377\377\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'`;
    const done = String.raw`printf '\024\0\0\0\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'`;
    const [long, short] = [listRequest(4).length, listRequest(4, "all").length];
    const afterBoth = (second: string): readonly string[] =>
      script(
        `head -c ${long} >/dev/null; ${refusal}; head -c ${short} >/dev/null; ${second}; exec cat`,
      );
    const ended = async (second: string): Promise<number> =>
      await forgetFlows(stale, { inNamespace: afterBoth(second), timeoutMs: 60_000 });
    assert.equal(await ended(done), 0);
    await assert.rejects(ended(refusal), { message: /lists none \(error 22\)$/ });
  });

  it("fails if no answer comes", async () => {
    const inNamespace = script("exec sleep 600");
    const failed = forgetFlows(stale, { inNamespace, timeoutMs: 50 });
    await assert.rejects(failed, { code: "COMMAND_FAILED" });
  });
});
