import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { parseChallenges } from "./authentication.ts";

function read(header: string): unknown {
  return parseChallenges(header).map(({ scheme, parameters }) => [
    scheme,
    Object.fromEntries(parameters),
  ]);
}

describe("parseChallenges()", () => {
  it("reads a token service's challenge", () => {
    const header =
      'Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull,push"';
    const parameters = {
      realm: "https://auth.example/token",
      service: "registry",
      scope: "repository:a/b:pull,push",
    };
    assert.deepEqual(read(header), [["bearer", parameters]]);
  });

  it("reads several, with escapes and bare values", () => {
    assert.deepEqual(read('Basic realm="a \\"b\\"", Negotiate, bearer realm=x , service=y'), [
      ["basic", { realm: 'a "b"' }],
      ["negotiate", {}],
      ["bearer", { realm: "x", service: "y" }],
    ]);
  });

  it("ends on any text", () => {
    fc.assert(fc.property(fc.string({ maxLength: 500 }), (text) => void parseChallenges(text)));
  });
});
