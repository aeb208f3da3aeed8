import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { mergeRegistries } from "./registries.ts";

describe("mergeRegistries()", () => {
  it("reads user and password from the auth field", () => {
    const auth = Buffer.from("me:a:b").toString("base64");
    const secrets = [{ auths: { "https://index.docker.io/v1/": { auth } } }];
    assert.deepEqual(mergeRegistries(secrets, []), [
      { host: "docker.io", username: "me", password: "a:b" },
    ]);
  });

  it("keeps the endpoint of the installation's own entry", () => {
    const own = [{ host: "kip.local", endpoint: "http://198.18.0.1:5000" }];
    const secrets = [{ auths: { "kip.local": { username: "u", password: "p" } } }];
    assert.deepEqual(mergeRegistries(secrets, own), [{ ...own[0], username: "u", password: "p" }]);
  });

  it("lets the first secret win and passes over nonsense", () => {
    const secrets = [
      null,
      { auths: { r: { username: "1", password: "x" } } },
      { r: { username: "2", password: "y" } },
      { auths: { q: 3 } },
    ];
    assert.deepEqual(mergeRegistries(secrets, []), [{ host: "r", username: "1", password: "x" }]);
  });
});
