import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { AgentError, type DesiredVariable } from "@kip/agent-api";
import { container } from "../../test/desired-pod.ts";
import { withFileEnv } from "./late-env.ts";

const root = fs.mkdtempSync(path.join(os.tmpdir(), "kip-env-"));
const volumes = new Map([["data", path.join(root, "data")]]);
fs.mkdirSync(path.join(root, "data/sub"), { recursive: true });
fs.writeFileSync(path.join(root, "data/sub/env"), "A=$(B) $$\nLONG=" + "x".repeat(33_000));
fs.writeFileSync(path.join(root, "secret"), "A=secret\n");
fs.symlinkSync("../secret", path.join(root, "data/out"));
fs.symlinkSync("sub/env", path.join(root, "data/in"));
fs.writeFileSync(path.join(root, "data/bad"), "A\n");
execFileSync("mkfifo", [path.join(root, "data/pipe")]);

function fromFile(name: string, file: Partial<DesiredVariable["file"]> = {}): DesiredVariable {
  const whole = { volume: "data", path: "sub/env", key: "A", isOptional: false, ...file };
  return { name, value: "", file: whole };
}

const late = (env: DesiredVariable[], more = {}) =>
  withFileEnv(container("a", { env, hasLateArguments: true, ...more }), volumes);

describe("withFileEnv()", () => {
  after(() => fs.rmSync(root, { recursive: true }));

  it("has values of files in variables, command and arguments, each expanded once", () => {
    const { env, command, args, hasLateArguments } = late(
      [fromFile("A"), { name: "B", value: "", template: "<$(A)>$$" }, { name: "C", value: "$(A)" }],
      { command: ["echo", "$(B)"], args: ["$$(A)", "$(A)", "$(NONE)"] },
    );
    assert.deepEqual(env, [
      { name: "A", value: "$(B) $$" },
      { name: "B", value: "<$(B) $$>$" },
      { name: "C", value: "$(A)" },
    ]);
    assert.deepEqual(command, ["echo", "<$(B) $$>$"]);
    assert.deepEqual(args, ["$(A)", "$(B) $$", "$(NONE)"]);
    assert.equal(hasLateArguments, false);
  });

  it("has them in paths of volumes, which need a value", () => {
    const mounts = (template: string) => {
      const env = [fromFile("A"), fromFile("NONE", { key: "Z", isOptional: true })];
      const mount = { name: "data", mountPath: "/data" };
      return late(env, { mounts: [mount, { ...mount, subPathTemplate: template }] }).mounts;
    };
    const mount = { name: "data", mountPath: "/data" };
    assert.deepEqual(mounts("x/$(A)/$$(A)"), [mount, { ...mount, subPath: "x/$(B) $$/$(A)" }]);
    assert.throws(() => mounts("x/$(NONE)"), {
      code: "AGENT_CONTAINER_CONFIG",
      message: "missing value for NONE",
    });
  });

  it("takes a name for one that has brackets in it, as a kubelet does", () => {
    const { args } = late([fromFile("A(B")], { args: ["$(A(B)", "$(X$(A(B))"] });
    assert.deepEqual(args, ["$(B) $$", "$(X$(A(B))"]);
  });

  it("changes nothing of a container without such variables", () => {
    const plain = container("a", { command: ["$$"], env: [{ name: "A", value: "$(A)" }] });
    assert.equal(withFileEnv(plain, volumes), plain);
  });

  it("leaves out optional variables that have no value", () => {
    const { env, args } = late([fromFile("A", { key: "Z", isOptional: true })], { args: ["$(A)"] });
    assert.deepEqual([env, args], [[], ["$(A)"]]);
  });

  it("keeps the value before an optional variable that has none, as a kubelet does", () => {
    const before = { name: "A", value: "before" };
    const env = (key: string): unknown =>
      late([
        before,
        fromFile("A", { key, isOptional: true }),
        { ...before, name: "B", template: "$(A)" },
      ]).env;
    assert.deepEqual(env("Z"), [before, { name: "B", value: "before" }]);
    const value = "$(B) $$";
    assert.deepEqual(env("A"), [
      { name: "A", value },
      { name: "B", value },
    ]);
    const files = ["A", "Z"].map((key) => fromFile("A", { key, isOptional: true }));
    assert.deepEqual(late(files).env, [{ name: "A", value }]);
  });

  it("follows links in the volume, and none out of it", () => {
    assert.equal(late([fromFile("A", { path: "in" })]).env[0]?.value, "$(B) $$");
    assert.throws(() => late([fromFile("A", { path: "out" })]), refusal(/couldn't parse env file/));
    assert.throws(() => late([fromFile("A", { path: "../secret" })]), refusal(/parse env file/));
  });

  it("refuses in the kubelet's words", () => {
    const rows: readonly [Partial<DesiredVariable["file"]>, RegExp][] = [
      [{ key: "Z" }, /environment variable key "Z" not found in file "sub.env"/],
      [{ key: "LONG" }, /environment variable value for key "LONG" exceeds maximum size of 32KB/],
      [{ volume: "none" }, /cannot find the volume "none" referenced by FileKeyRef/],
      [{ path: "bad" }, /couldn't parse env file/],
      [{ path: "none" }, /couldn't parse env file/],
      [{ path: "sub" }, /couldn't parse env file/],
      [{ path: "pipe" }, /couldn't parse env file/],
    ];
    for (const [file, words] of rows)
      assert.throws(() => late([fromFile("A", file)]), refusal(words));
  });

  it("reads each file once for all variables of it", (context) => {
    const opened = context.mock.method(fs, "openSync");
    const env = late([fromFile("A"), fromFile("B"), fromFile("C", { path: "in" })]).env;
    assert.equal(env.length, 3);
    const files = opened.mock.calls.filter(({ arguments: [, flags] }) => flags === nonBlocking);
    assert.equal(files.length, 2);
  });

  it("bounds the size of all files together", () => {
    const half = "A=1\n".repeat(150_000);
    for (const name of ["half1", "half2"]) fs.writeFileSync(path.join(root, "data", name), half);
    const [one, again, two] = [
      fromFile("A", { path: "half1" }),
      fromFile("C", { path: "half1" }),
      fromFile("B", { path: "half2" }),
    ];
    assert.equal(late([one, again]).env.length, 2);
    assert.throws(() => late([one, two]), refusal(/couldn't parse env file/));
  });

  it("bounds what variables that refer to each other become", () => {
    fs.writeFileSync(path.join(root, "data/big"), `A=${"x".repeat(30_000)}`);
    const env: DesiredVariable[] = [fromFile("V0", { path: "big" })];
    for (let n = 1; n < 40; n++)
      env.push({ name: `V${n}`, value: "", template: `$(V${n - 1})$(V${n - 1})` });
    assert.throws(() => late(env), refusal(/larger than 8388608 bytes/));
  });
});

const nonBlocking = fs.constants.O_RDONLY | fs.constants.O_NONBLOCK;

function refusal(words: RegExp): (error: unknown) => boolean {
  return (error) => AgentError.is(error, "AGENT_CONTAINER_CONFIG") && words.test(error.message);
}
