import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { describe, it } from "node:test";

const main = path.join(import.meta.dirname, "../main.ts");
const pod = JSON.stringify({
  kind: "Pod",
  metadata: { name: "x" },
  spec: { containers: [{ name: "a" }] },
});

function kipPrice(args: readonly string[], input = pod) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, "price", ...args], {
    input,
    encoding: "utf8",
    env: process.env,
  });
  return { status, stdout, stderr };
}

describe("kip price", () => {
  it("reads the standard input, and writes text or JSON", () => {
    const text = kipPrice(["-f", "-", "--cloud", "gce"]);
    assert.match(text.stdout, /^Machines of gce us-central1 .*\n.*\n\nPod x: asks for nothing\n/);
    assert.deepEqual([text.status, text.stderr], [0, ""]);
    const json = kipPrice(["--filename=-", "-o", "json", "--region", "eu-west-1"]);
    assert.equal(JSON.parse(json.stdout).region, "eu-west-1");
  });

  it("says in two lines what is wrong and what to do, and fails", () => {
    const wrong = kipPrice(["-f", "-"], "kind: Service");
    assert.deepEqual([wrong.status, wrong.stdout], [1, ""]);
    assert.match(
      wrong.stderr,
      /^kip: Cannot price the standard input: .*\n {5}Give a manifest .*\n$/,
    );
    assert.match(kipPrice([]).stderr, /no manifest is given\n {5}Write kip price -f pods\.yaml\n/);
  });
});
