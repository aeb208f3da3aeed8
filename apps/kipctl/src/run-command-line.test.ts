import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { commands } from "./commands.ts";
import { runCommandLine } from "./run-command-line.ts";

async function run(...args: readonly string[]) {
  const printed = { out: "", notes: [] as string[] };
  const code = await runCommandLine(args, {
    env: {},
    signal: new AbortController().signal,
    now: 0,
    program: "kipctl",
    out: (text) => (printed.out += text),
    note: (line) => printed.notes.push(line),
  });
  return { code, ...printed };
}

async function failure(...args: readonly string[]) {
  const error: unknown = await run(...args).then(
    () => assert.fail(`kipctl ${args.join(" ")} succeeded`),
    (reason: unknown) => reason,
  );
  assert.ok(isCodedError(error));
  return error;
}

describe("runCommandLine()", () => {
  for (const args of [[], ["help"], ["--help"], ["-h"]])
    it(`lists every command for "${args.join(" ")}"`, async () => {
      const { out, code } = await run(...args);
      assert.equal(code, 0);
      for (const { name } of commands) assert.match(out, new RegExp(`^  kipctl ${name} `, "m"));
    });

  for (const { name, options } of commands)
    it(`shows options and examples of ${name}`, async () => {
      for (const args of [
        [name, "--help"],
        [name, "-h"],
        ["help", name],
      ]) {
        const { out } = await run(...args);
        assert.match(out, new RegExp(`^Usage: kipctl ${name}`));
        assert.match(out, /\nExamples:\n {2}kipctl /);
        for (const { flag, hasNoEffect = false } of options)
          assert.equal(out.includes(`--${flag} `), !hasNoEffect, flag);
      }
    });

  it("takes flags of every command before it, and says which have no effect", async () => {
    const flags = ["--endpoints", "localhost:54555", "-t", "--context=c"];
    const { out, notes } = await run(...flags, "version", "--client");
    assert.equal(JSON.parse(out).kipctl, "0.1.0");
    assert.deepEqual(
      notes.map((line) => line.split(" ")[0]),
      ["--endpoints", "--toggle"],
    );
  });

  const mistakes: readonly (readonly [string, string, RegExp, RegExp])[] = [
    ["gte pods", "OPTION_UNKNOWN", /kipctl gte/, /kipctl get/],
    ["--outputt get", "OPTION_UNKNOWN", /--outputt/, /kipctl --help/],
    ["get", "OPTION_MISSING", /KIND/, /get KIND/],
    ["get podz", "OPTION_UNKNOWN", /podz/, /pod/],
    ["get pods -o xml", "OPTION_INVALID", /--output xml/, /^$/],
    ["get svc", "COMMAND_REPLACED", /services/, /kubectl get services/],
    ["get secrets", "COMMAND_REPLACED", /secrets/, /kubectl get secrets/],
    ["get pods --selctor=a", "OPTION_UNKNOWN", /--selctor/, /--selector/],
    ["explain", "OPTION_MISSING", /POD/, /explain POD/],
    ["cost now", "OPTION_INVALID", /"now"/, /Write cost/],
    ["top --sort-by=disk", "OPTION_INVALID", /--sort-by disk/, /^$/],
    ["logs web --lines=few", "OPTION_INVALID", /--lines few/, /^$/],
    ["exec web", "OPTION_MISSING", /after --/, /exec web -- sh/],
    ["exec web ls -l", "OPTION_UNKNOWN", /"-l"/, /help/],
    ["exec web ls", "OPTION_MISSING", /after --/, /exec web -- ls/],
    ["create", "OPTION_MISSING", /--filename/, /--filename/],
    ["create -f /does/not/exist", "OPTION_INVALID", /does\/not\/exist/, /^$/],
    ["delete pod", "OPTION_MISSING", /NAME/, /delete KIND NAME/],
    ["completion tcsh", "OPTION_INVALID", /tcsh/, /bash, zsh, fish/],
    ["deploy web tool file", "COMMAND_REPLACED", /package/, /kubectl cp/],
    ["dump stack", "COMMAND_REPLACED", /worker/, /kipctl dump/],
    ["dump -o name", "OPTION_INVALID", /--output name/, /^$/],
    ["version --kubeconfig=/no/file", "KUBECONFIG_INVALID", /\/no\/file/, /--kubeconfig/],
  ];
  for (const [line, code, message, remedy] of mistakes)
    it(`says what is wrong with "${line}"`, async () => {
      const error = await failure(...line.split(" "));
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.match(error.remedy ?? "", remedy);
    });
});
