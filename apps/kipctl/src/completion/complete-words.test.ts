import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { commands } from "../commands.ts";
import { completeWords } from "./complete-words.ts";

const complete = (...words: readonly string[]) => {
  const { candidates, names, hasFiles } = completeWords(commands, words);
  return { texts: candidates.map(({ text }) => text), names, hasFiles };
};

describe("completeWords()", () => {
  it("completes commands", () => {
    assert.deepEqual(complete("ex").texts, ["explain", "exec"]);
    assert.equal(complete("").texts.length, commands.length);
  });

  it("completes kinds, and then names of that kind", () => {
    assert.deepEqual(complete("get", "no").texts, ["nodes"]);
    assert.equal(complete("get", "-o", "json", "pods", "").names, "pods");
    assert.equal(complete("get", "cl", "").names, "cells");
    assert.equal(complete("delete", "node", "").names, "cells");
  });

  it("completes pods once", () => {
    for (const command of ["explain", "logs", "exec", "attach"]) {
      assert.equal(complete(command, "").names, "pods");
      assert.equal(complete(command, "web", "").names, undefined);
    }
    assert.equal(complete("cost", "").names, undefined);
  });

  it("completes flags, but for those without effect, and their values", () => {
    const { texts } = complete("get", "--");
    assert.ok(texts.includes("--output") && texts.includes("--namespace"));
    assert.ok(!texts.includes("--endpoints"));
    assert.deepEqual(complete("get", "-o", "y").texts, ["yaml"]);
    assert.equal(complete("get", "pods", "-n", "").names, "namespaces");
    assert.equal(complete("create", "-f", "").hasFiles, true);
    assert.deepEqual(complete("completion", "").texts, ["bash", "zsh", "fish"]);
  });

  it("leaves a command in a pod to the shell", () => {
    assert.deepEqual(complete("exec", "web", "--", "l"), {
      texts: [],
      names: undefined,
      hasFiles: true,
    });
  });
});
