import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { commandOptions } from "./options.ts";

describe("commandOptions", () => {
  it("leaves KUBECONFIG to the client, which takes a list of files", () => {
    const env = { KUBECONFIG: "/nowhere:/etc/kubeconfig" };
    assert.equal(parseOptions(commandOptions, [], env).text("kubeconfig"), undefined);
    const given = parseOptions(commandOptions, ["--kubeconfig", "/etc/other"], env);
    assert.equal(given.text("kubeconfig"), "/etc/other");
  });
});
