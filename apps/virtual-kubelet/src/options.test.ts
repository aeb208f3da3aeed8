import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { nodeOptions } from "./options.ts";

describe("nodeOptions", () => {
  it("leaves KUBECONFIG to the client, which takes a list of files", () => {
    const env = { KUBECONFIG: "/nowhere:/etc/kubeconfig" };
    assert.equal(parseOptions(nodeOptions, [], env).text("kubeconfig"), undefined);
    const given = parseOptions(nodeOptions, ["--kubeconfig", "/etc/other"], env);
    assert.equal(given.text("kubeconfig"), "/etc/other");
  });
});
