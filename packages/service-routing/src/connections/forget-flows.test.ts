import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { listRequest } from "./conntrack-messages.ts";
import { forgetFlows } from "./forget-flows.ts";

const staleAt = (port: number) => ({
  address: "10.96.0.1",
  port,
  serving: new Set<string>(),
  isUntranslatedStale: false,
});
const stale = [staleAt(53)];

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

  it("asks for connections to each port if there are few, and otherwise for all of UDP", async () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "asked");
    const done = String.raw`printf '\024\0\0\0\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'`;
    for (const count of [2, 8, 9]) {
      const ports = Array.from({ length: count }, (_, i) => 53 + i);
      const requests = count > 8 ? [listRequest(4)] : ports.map((port) => listRequest(4, { port }));
      const answers = requests.map(({ length }) => `head -c ${length} >>${file}; ${done}`);
      const inNamespace = script([`rm -f ${file}`, ...answers, "exec cat"].join("; "));
      await forgetFlows(ports.map(staleAt), { inNamespace });
      assert.deepEqual(await readFile(file), Buffer.concat(requests));
    }
  });

  it("asks for all connections if the kernel refuses to list some alone, and fails if it lists none", async () => {
    const refusal = String.raw`printf '\044\0\0\0\002\0\0\0\0\0\0\0\0\0\0\0\352\377\377\377\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'`;
    const done = String.raw`printf '\024\0\0\0\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'`;
    const [long, short] = [listRequest(4, { port: 53 }).length, listRequest(4, "all").length];
    const afterBoth = (second: string): readonly string[] =>
      script(
        `head -c ${long} >/dev/null; ${refusal}; head -c ${short} >/dev/null; ${second}; exec cat`,
      );
    const ended = async (second: string): Promise<number> =>
      await forgetFlows(stale, { inNamespace: afterBoth(second), timeoutMs: 60_000 });
    assert.equal(await ended(done), 0);
    await assert.rejects(ended(refusal), { message: /lists none \(error 22\)$/ });
    // It may have begun the list, and say at its end that it is not complete.
    const broken = String.raw`printf '\024\0\0\0\003\0\0\0\0\0\0\0\0\0\0\0\364\377\377\377'`;
    await assert.rejects(ended(broken), { message: /lists none \(error 12\)$/ });
  });

  it("fails if no answer comes", async () => {
    const inNamespace = script("exec sleep 600");
    const failed = forgetFlows(stale, { inNamespace, timeoutMs: 50 });
    await assert.rejects(failed, { code: "COMMAND_FAILED" });
  });
});
