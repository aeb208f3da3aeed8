import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Secret } from "@kip/base";
import { growth } from "@kip/base/testing";
import { mergeRegistries, registriesOf } from "./registries.ts";

const account = (username: string) => ({ username, password: "x" });
const auths = (...keys: readonly string[]) => ({
  auths: Object.fromEntries(keys.map((key) => [key, account(key)])),
});

/** The user names with which a cell logs in for an image, in order. */
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

  it("keeps the installation's settings of a registry, and its other registries", () => {
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

  it("gives no credentials of registries that the pod does not use", () => {
    const own = [
      { host: "used.test", mirrors: ["https://near.test:5000"], ...account("used") },
      { host: "near.test:5000", ca: "PEM", ...account("mirror") },
      { host: "private.test", ca: "PEM", endpoint: "https://other.test", ...account("robot") },
      { host: "unused.test", mirrors: ["https://private.test"] },
    ];
    const merged = mergeRegistries(["used.test/app", "busybox"], { pullSecrets: [], own });
    assert.deepEqual(merged, [
      own[0],
      own[1],
      { host: "private.test", ca: "PEM", endpoint: "https://other.test" },
      own[3],
    ]);
    assert.ok(!JSON.stringify(merged).includes("robot"));
  });

  it("takes a pattern of a tenant in linear time, and none longer than a host's name", () => {
    const host = `${"a".repeat(60)}.test`;
    assert.deepEqual(users(`${host}/app`, auths(`${"*a".repeat(30)}b.test`)), []);
    assert.deepEqual(users(`${host}/app`, auths(`${"*".repeat(60)}.test`)).length, 1);
    assert.deepEqual(users(`${host}/app`, auths(`${"*".repeat(253)}.test`)), []);
  });

  it("compares ports as they are", () => {
    assert.deepEqual(users("r.test:5000/app", auths("*.test", "r.test:*", "?.test:5000")), [
      "?.test:5000",
    ]);
  });

  it("takes time in proportion to the pod and its secrets, not to their product", async () => {
    // An object of 1.5 MiB has room for some 20,000 images, and a Secret of 1 MiB for as many entries.
    const merge = (size: number): void => {
      const hosts = Array.from({ length: size }, (_, index) => `h${index}.test/a${index}`);
      const paths = Array.from({ length: size }, (_, index) => `one.test/a${index}`);
      const secret = auths(...paths.map((path) => `${path}x`), "*.test", "?1.test/a");
      mergeRegistries([...hosts, ...paths], { pullSecrets: [secret], own: [] });
    };
    assert.ok((await growth(merge, 10_000)) < 40);
    const label = "a.".repeat(5);
    const parse = (size: number): unknown => registriesOf([`${label.repeat(size / 10)}test/A`]);
    assert.ok((await growth(parse, 1_500_000)) < 40);
  });

  it("compares hosts and keys with wildcards for a short time only, however many and long they are", () => {
    const images = Array.from({ length: 1000 }, (_, at) => `${"a".repeat(230)}${at}.test/app`);
    const keys = Array.from({ length: 100 }, (_, at) => `*${"a".repeat(115)}b.test/${at}`);
    const pullSecrets = [auths(...keys)];
    const before = process.cpuUsage();
    assert.deepEqual(mergeRegistries(images, { pullSecrets, own: [] }), []);
    const { user } = process.cpuUsage(before);
    assert.ok(user < 1_000_000, `${user} µs`);
  });

  it("copies accounts of keys with wildcards into at most some MiB", () => {
    const images = Array.from({ length: 5000 }, (_, index) => `h${index}.test/app`);
    const keys = Array.from({ length: 200 }, (_, index) => `${"*".repeat(index + 1)}.test`);
    const password = "x".repeat(4096);
    const secret = Object.fromEntries(keys.map((key) => [key, { username: key, password }]));
    const merged = mergeRegistries(images, { pullSecrets: [{ auths: secret }], own: [] });
    assert.ok(JSON.stringify(merged).length < 4 * 2 ** 20);
    assert.equal(merged[0]?.accounts?.length, 100);
  });
});
