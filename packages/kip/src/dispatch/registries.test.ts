import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Secret } from "@kip/base";
import { mergeRegistries } from "./registries.ts";

const account = (username: string) => ({ username, password: "x" });
const auths = (...keys: readonly string[]) => ({
  auths: Object.fromEntries(keys.map((key) => [key, account(key)])),
});

/** Whom a cell is told to log in as for an image, in order. */
function users(image: string, ...secrets: readonly unknown[]): readonly string[] {
  const [found] = mergeRegistries([image], { pullSecrets: secrets, own: [] });
  return (found?.accounts ?? []).map(({ username }) => username);
}

describe("mergeRegistries()", () => {
  it("reads user and password from the auth field", () => {
    const auth = Buffer.from("me:a:b").toString("base64");
    const pullSecrets = [{ auths: { "https://index.docker.io/v1/": { auth } } }];
    assert.deepEqual(mergeRegistries(["busybox"], { pullSecrets, own: [] }), [
      { host: "docker.io", accounts: [{ username: "me", password: "a:b" }] },
    ]);
  });

  it("keeps what the installation says of a registry, and its other registries", () => {
    const own = [
      { host: "kip.local", endpoint: "http://198.18.0.1:5000", ...account("own") },
      { host: "mirror.test", ca: "PEM" },
    ];
    assert.deepEqual(
      mergeRegistries(["kip.local/a:1"], { pullSecrets: [auths("kip.local")], own }),
      [{ ...own[0], accounts: [account("kip.local")] }, own[1]],
    );
  });

  it("gives the cell what the pod's images need, and no other credentials", () => {
    const pullSecrets = [auths("r.test", "other.test", "r.test/team")];
    assert.deepEqual(mergeRegistries(["r.test/app", "Not/An/Image"], { pullSecrets, own: [] }), [
      { host: "r.test", accounts: [account("r.test")] },
    ]);
    assert.deepEqual(mergeRegistries(["third.test/app"], { pullSecrets, own: [] }), []);
  });

  it("orders as the kubelet does: longer paths first, then the order of the secrets", () => {
    const secrets = [auths("r.test", "r.test/team"), { "r.test": account("later") }, null, 3];
    assert.deepEqual(users("r.test/team/app:1", ...secrets), ["r.test/team", "r.test", "later"]);
    assert.deepEqual(users("r.test/app:1", ...secrets), ["r.test", "later"]);
    assert.deepEqual(users("r.test/a", auths("https://r.test/v2/"), auths("r.test/v1/a")), [
      "r.test/v1/a",
      "https://r.test/v2/",
    ]);
  });

  it("takes a * for one part of a host's name", () => {
    const secret = auths("*.reg.test", "*.test", "a*.reg.test:5000");
    assert.deepEqual(users("eu.reg.test/app", secret), ["*.reg.test"]);
    assert.deepEqual(users("abc.reg.test:5000/app", secret), ["a*.reg.test:5000"]);
    assert.deepEqual(users("x.eu.reg.test/app", secret), []);
  });

  it("puts the cloud's log-in last, and the installation's before it", () => {
    const logIns = new Map([["r.test", { username: "cloud", password: new Secret("token") }]]);
    const pullSecrets = [auths("r.test")];
    assert.deepEqual(mergeRegistries(["r.test/a"], { pullSecrets, own: [], logIns }), [
      { host: "r.test", username: "cloud", password: "token", accounts: [account("r.test")] },
    ]);
    const own = [{ host: "r.test", ...account("own") }];
    assert.deepEqual(mergeRegistries(["r.test/a"], { pullSecrets: [], own, logIns }), own);
  });
});
