import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { providerOptions } from "./provider-options.ts";

describe("providerOptions", () => {
  it("leaves KUBECONFIG to the client, which takes a list of files", () => {
    const env = { KUBECONFIG: "/nowhere:/etc/kubeconfig" };
    assert.equal(parseOptions(providerOptions, [], env).text("kubeconfig"), undefined);
    const given = parseOptions(providerOptions, ["--kubeconfig", "/etc/other"], env);
    assert.equal(given.text("kubeconfig"), "/etc/other");
  });
});
