import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lastErrorLines } from "./last-error-lines.ts";

describe("lastErrorLines()", () => {
  it("picks the errors of a Kubernetes log", () => {
    const log = `I1121 11:45:18.527176   17213 flags.go:64] FLAG: --watch-cache-sizes="[]"
E1121 11:45:18.527229   17213 run.go:72] "command failed" err="range is not a valid cidr"
I1121 11:45:18.527300   17213 flags.go:64] FLAG: --v="1"
`;
    assert.equal(lastErrorLines(log), `"command failed" err="range is not a valid cidr"`);
  });

  it("picks message and error of an etcd log", () => {
    const log = `{"level":"info","ts":"x","msg":"starting"}
{"level":"warn","ts":"x","caller":"a.go:1","msg":"failed to verify flags","error":"\\"a\\" is bad"}
`;
    assert.equal(lastErrorLines(log), `failed to verify flags: "a" is bad`);
  });

  it("takes the last line of any other log", () => {
    assert.equal(lastErrorLines("one\ntwo\n"), "two");
    assert.equal(lastErrorLines(""), "");
  });
});
