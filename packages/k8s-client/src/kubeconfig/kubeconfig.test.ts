import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { inspect } from "node:util";
import { temporaryFolder } from "@kip/testing";
import { K8sError } from "../errors.ts";
import { loadKubeConfig } from "./kubeconfig.ts";

const temporary = temporaryFolder();
const folder = temporary.path;
after(() => temporary.remove());

const base64 = (text: string): string => Buffer.from(text).toString("base64");

async function file(name: string, user: string): Promise<string> {
  const text = `
apiVersion: v1
kind: Config
current-context: one
contexts:
  - name: one
    context: { cluster: c, user: u, namespace: team }
clusters:
  - name: c
    cluster: { server: "https://192.0.2.1:6443/", certificate-authority-data: ${base64("CA")} }
users:
  - name: u
    user: ${user}
`;
  const target = path.join(folder, name);
  await writeFile(target, text);
  return target;
}

describe("loadKubeConfig()", () => {
  it("reads certificates from data and from files beside the kubeconfig", async () => {
    await writeFile(path.join(folder, "key.pem"), "KEY");
    const user = `{ client-certificate-data: ${base64("CERT")}, client-key: key.pem }`;
    const config = await loadKubeConfig({ path: await file("certificates", user) });
    const { ca, cert, key, verifyServer, headers } = await config.credentials();
    assert.equal(config.server, "https://192.0.2.1:6443");
    assert.equal(config.namespace, "team");
    assert.deepEqual([ca, cert, key].map(String), ["CA", "CERT", "KEY"]);
    assert.equal(verifyServer, true);
    assert.deepEqual(headers, {});
    assert.equal(await config.credentials(), await config.credentials());
  });

  it("refuses what it cannot follow: a proxy, or a server that is not a URL", async () => {
    const withCluster = async (name: string, cluster: string): Promise<string> => {
      const target = path.join(folder, name);
      const contexts = "[{ name: one, context: { cluster: c, user: u } }]";
      const users = "[{ name: u, user: { token: t } }]";
      const clusters = `[{ name: c, cluster: { ${cluster} } }]`;
      await writeFile(
        target,
        `current-context: one\ncontexts: ${contexts}\nusers: ${users}\nclusters: ${clusters}\n`,
      );
      return target;
    };
    const server = "server: https://192.0.2.1:6443";
    const cases = [
      ["proxy", `${server}, proxy-url: "http://proxy.example:3128"`, /proxy-url/],
      ["no-server", "tls-server-name: a", /server/],
      ["no-scheme", "server: localhost:6443", /server/],
      ["other-scheme", "server: ftp://192.0.2.1", /server/],
    ] as const;
    for (const [name, cluster, message] of cases)
      await assert.rejects(
        loadKubeConfig({ path: await withCluster(name, cluster) }),
        (error: Error) => K8sError.is(error, "KUBECONFIG_INVALID") && message.test(error.message),
        name,
      );
    const direct = await withCluster("no-proxy", `${server}, proxy-url: ""`);
    assert.equal((await loadKubeConfig({ path: direct })).server, "https://192.0.2.1:6443");
  });

  it("keeps the token that it has while the file is empty or gone", async () => {
    const tokenFile = path.join(folder, "renewed-token");
    await writeFile(tokenFile, "first");
    const config = await loadKubeConfig({
      path: await file("renewed", "{ tokenFile: renewed-token }"),
    });
    const authorization = async (): Promise<unknown> =>
      (await config.credentials()).headers["Authorization"];
    assert.equal(await authorization(), "Bearer first");
    for (const change of [
      async () => await writeFile(tokenFile, "\n"),
      async () => await rm(tokenFile),
    ]) {
      await change();
      config.forget?.(await config.credentials());
      assert.equal(await authorization(), "Bearer first");
    }
    await writeFile(tokenFile, "second");
    assert.equal(await authorization(), "Bearer second");
  });

  it("does not send an empty token", async () => {
    await writeFile(path.join(folder, "empty-token"), "");
    const config = await loadKubeConfig({
      path: await file("empty", "{ tokenFile: empty-token }"),
    });
    await assert.rejects(config.credentials(), (error) =>
      K8sError.is(error, "K8S_CREDENTIALS_FAILED"),
    );
  });

  it("reads a token file again when the server refused its token", async () => {
    await writeFile(path.join(folder, "token"), "first\n");
    const config = await loadKubeConfig({ path: await file("token-file", "{ tokenFile: token }") });
    assert.equal((await config.credentials()).headers["Authorization"], "Bearer first");
    await writeFile(path.join(folder, "token"), "second\n");
    assert.equal((await config.credentials()).headers["Authorization"], "Bearer first");
    config.forget?.(await config.credentials());
    assert.equal((await config.credentials()).headers["Authorization"], "Bearer second");
  });

  it("reads certificate files again when the server refused them", async () => {
    const write = (text: string): Promise<void> => writeFile(path.join(folder, "pair.pem"), text);
    const user = "{ client-certificate: pair.pem, client-key: pair.pem }";
    await write("first");
    const config = await loadKubeConfig({ path: await file("rotated", user) });
    const first = await config.credentials();
    config.forget?.(await config.credentials());
    assert.equal(await config.credentials(), first, "nothing changed");
    await write("second");
    config.forget?.(await config.credentials());
    const { cert, key } = await config.credentials();
    assert.deepEqual([cert, key].map(String), ["second", "second"]);
    await rm(path.join(folder, "pair.pem")); // the file is just being replaced
    config.forget?.(await config.credentials());
    assert.equal(String((await config.credentials()).cert), "second");
  });

  it("finds the file that KUBECONFIG or HOME names", async () => {
    const target = await file("named", "{ token: t }");
    const config = await loadKubeConfig({ env: { KUBECONFIG: `/nowhere:${target}` } });
    assert.equal((await config.credentials()).headers["Authorization"], "Bearer t");
  });

  it("reads no file of the home folder where KUBECONFIG is set", async () => {
    await mkdir(path.join(folder, ".kube"), { recursive: true });
    await file(".kube/config", "{ token: of-another-cluster }");
    const config = await loadKubeConfig({ env: { HOME: folder } });
    assert.equal(
      (await config.credentials()).headers["Authorization"],
      "Bearer of-another-cluster",
    );
    const missing = { KUBECONFIG: path.join(folder, "absent"), HOME: folder };
    await assert.rejects(loadKubeConfig({ env: missing }), { code: "KUBECONFIG_INVALID" });
  });

  it("impersonates with user, UID, groups and extra, encoded as client-go does", async () => {
    const user = `{ token: t, as: "jörg", as-uid: "7", as-groups: [a, "b c"], as-user-extra: { "x/y%z": ["1", "2"], Scopes: [s] } }`;
    const config = await loadKubeConfig({ path: await file("as", user) });
    const { headers } = await config.credentials();
    assert.deepEqual(headers, {
      Authorization: "Bearer t",
      "Impersonate-User": "jÃ¶rg", // its UTF-8 bytes
      "Impersonate-Uid": "7",
      "Impersonate-Group": ["a", "b c"],
      "Impersonate-Extra-x%2Fy%25z": ["1", "2"],
      "Impersonate-Extra-Scopes": ["s"],
    });
  });

  it("refuses an impersonation that it cannot send", async () => {
    for (const user of [
      "{ token: t, as-groups: [a] }",
      "{ token: t, as-user-extra: { a: [b] } }",
      "{ token: t, as: x, as-groups: a }",
      '{ token: t, as: "x\\r\\nImpersonate-Group: system:masters" }',
    ])
      await assert.rejects(
        loadKubeConfig({ path: await file("as-bad", user) }),
        { code: "KUBECONFIG_INVALID" },
        user,
      );
  });

  it("keeps what it has read since a request with older credentials was refused", async () => {
    await writeFile(path.join(folder, "token"), "first");
    const config = await loadKubeConfig({ path: await file("older", "{ tokenFile: token }") });
    const older = await config.credentials();
    await writeFile(path.join(folder, "token"), "second");
    config.forget?.(older);
    const newer = await config.credentials();
    await writeFile(path.join(folder, "token"), "third");
    config.forget?.(older);
    assert.equal(await config.credentials(), newer);
  });

  it("says what is wrong", async () => {
    const isInvalid = (error: unknown): boolean => K8sError.is(error, "KUBECONFIG_INVALID");
    await assert.rejects(loadKubeConfig(), isInvalid);
    await assert.rejects(loadKubeConfig({ path: path.join(folder, "absent") }), isInvalid);
    const target = await file("context", "{}");
    await assert.rejects(loadKubeConfig({ path: target, context: "two" }), /no complete context/);
    await writeFile(path.join(folder, "broken"), "a: [");
    await assert.rejects(loadKubeConfig({ path: path.join(folder, "broken") }), isInvalid);
  });

  it("refuses users that would have no credentials: an auth-provider without a name, a certificate without its key", async () => {
    for (const [user, reason] of [
      ["{ auth-provider: { config: { a: b } } }", /auth-provider "" is not known/],
      ["{ auth-provider: {} }", /auth-provider "" is not known/],
      ["{ auth-provider: { name: gcp } }", /auth-provider "gcp" is not known/],
      [`{ client-certificate-data: ${base64("CERT")} }`, /without the other/],
      [`{ client-key-data: ${base64("KEY")} }`, /without the other/],
      ['{ client-key-data: "-----BEGIN KEY-----" }', /client-key-data is not base64/],
    ] as const)
      await assert.rejects(
        loadKubeConfig({ path: await file("anonymous", user) }),
        { code: "KUBECONFIG_INVALID", message: reason },
        user,
      );
  });

  it("quotes nothing of a file that it cannot parse, which may be a secret", async () => {
    for (const text of [
      "users:\n- name: u\n  user: { token: hidden, x: [}\n",
      "users:\n- name: u\n  user:\n    token: *hidden\n",
      '{ "users": [{ "name": "u", "user": { "token": hidden } }] }',
    ]) {
      const target = path.join(folder, "unparsable");
      await writeFile(target, text);
      await assert.rejects(loadKubeConfig({ path: target }), (error) => {
        assert.ok(K8sError.is(error, "KUBECONFIG_INVALID"));
        assert.doesNotMatch(inspect(error), /hidden/);
        return true;
      });
    }
  });

  it("refuses a named file that is there and cannot be read, instead of going on with another", async () => {
    const unreadable = path.join(folder, "is-a-folder");
    await mkdir(unreadable, { recursive: true });
    const other = await file("other", "{ token: t }");
    const env = { KUBECONFIG: [unreadable, other].join(path.delimiter) };
    for (const options of [{ env }, { path: unreadable }])
      await assert.rejects(loadKubeConfig(options), {
        code: "KUBECONFIG_INVALID",
        message: /is-a-folder": EISDIR/,
      });
    const home = path.join(folder, "home-of-another");
    await mkdir(path.join(home, ".kube", "config"), { recursive: true });
    await assert.rejects(loadKubeConfig({ env: { HOME: home } }), /there is no such file/);
  });

  it("finds no context in an empty file", async () => {
    await writeFile(path.join(folder, "empty"), "\n");
    await assert.rejects(
      loadKubeConfig({ path: path.join(folder, "empty") }),
      /no complete context/,
    );
  });
});
