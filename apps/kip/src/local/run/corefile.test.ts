import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { corefile } from "./corefile.ts";

describe("corefile()", () => {
  it("asks the host's resolvers for names outside the cluster", () => {
    const text = corefile({ address: "198.18.0.3", resolvers: ["198.18.255.3"] });
    assert.match(text, /^ {4}bind 198\.18\.0\.3$/m);
    assert.match(text, /^ {4}forward \. 198\.18\.255\.3 \{$/m);
  });

  it("asks none where there is no way out", () => {
    const text = corefile({ address: "198.18.0.3", resolvers: [] });
    assert.doesNotMatch(text, /forward|loop/);
  });
});
