import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { nodeIpsOf, providerOptions } from "./provider-options.ts";

describe("providerOptions", () => {
  it("leaves KUBECONFIG to the client, which takes a list of files", () => {
    const env = { KUBECONFIG: "/nowhere:/etc/kubeconfig" };
    assert.equal(parseOptions(providerOptions, [], env).text("kubeconfig"), undefined);
    const given = parseOptions(providerOptions, ["--kubeconfig", "/etc/other"], env);
    assert.equal(given.text("kubeconfig"), "/etc/other");
  });
});

describe("nodeIpsOf()", () => {
  const read = (text: string) =>
    nodeIpsOf(parseOptions(providerOptions, [`--node-ip=${text}`], {}));

  it("takes an address, or one of each family", () => {
    assert.deepEqual(read("192.0.2.1"), ["192.0.2.1"]);
    assert.deepEqual(read("192.0.2.1, 2001:db8::1"), ["192.0.2.1", "2001:db8::1"]);
  });

  it("refuses names, and two addresses of one family", () => {
    for (const text of ["node.example", "192.0.2.1,", "192.0.2.1,192.0.2.2"])
      assert.throws(() => read(text), { code: "OPTION_INVALID" });
  });
});
