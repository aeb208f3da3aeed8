import assert from "node:assert/strict";
import { chmod, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, beforeEach, describe, it } from "node:test";
import { systemClock, type Clock } from "@kip/base";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { loadKubeConfig, type KubeConfig } from "./kubeconfig.ts";

const temporary = temporaryFolder();
const folder = temporary.path;
after(() => temporary.remove());
beforeEach(() => rm(path.join(folder, "runs"), { force: true }));

const start = Date.parse("2026-01-01T00:00:00Z");

/** A kubeconfig whose plugin is this shell script, with `$folder` and `$run` (1, 2, …) set. */
async function plugin(
  script: string,
  { fields = "", clock = systemClock }: { readonly fields?: string; readonly clock?: Clock } = {},
): Promise<KubeConfig> {
  const program = path.join(folder, "plugin.sh");
  await writeFile(
    program,
    `#!/bin/sh\nfolder=${folder}\necho run >> $folder/runs\nrun=$(grep -c run $folder/runs)\n${script}\n`,
  );
  await chmod(program, 0o755);
  const text = `
current-context: one
contexts: [{ name: one, context: { cluster: c, user: u } }]
clusters:
  - name: c
    cluster:
      server: https://127.0.0.1:1
      tls-server-name: api
      certificate-authority-data: Q0E=
      extensions: [{ name: client.authentication.k8s.io/exec, extension: { audience: "7" } }]
users:
  - name: u
    user:
      exec: { apiVersion: client.authentication.k8s.io/v1, command: ./plugin.sh ${fields} }
`;
  const file = path.join(folder, "config");
  await writeFile(file, text);
  return await loadKubeConfig({ path: file, env: { PATH: process.env["PATH"] }, clock });
}

async function runs(): Promise<number> {
  const text = await readFile(path.join(folder, "runs"), "utf8").catch(() => "");
  return text.split("\n").length - 1;
}

async function token(config: KubeConfig): Promise<unknown> {
  return (await config.credentials()).headers["Authorization"];
}

const giveToken = `echo "{\\"status\\":{\\"token\\":\\"t$run\\"}}"`;

describe("loadKubeConfig() with an exec plugin", () => {
  it("runs the plugin once for all waiting requests, at a path relative to the kubeconfig", async () => {
    const config = await plugin(`until [ -e $folder/go ]; do sleep 0.02; done; ${giveToken}`);
    const waiting = Array.from({ length: 16 }, () => token(config));
    await writeFile(path.join(folder, "go"), "");
    assert.deepEqual(new Set(await Promise.all(waiting)), new Set(["Bearer t1"]));
    assert.equal(await runs(), 1);
  });

  it("passes the cluster to the plugin only if the kubeconfig says so", async () => {
    const show = `printf %s "$KUBERNETES_EXEC_INFO" > $folder/info; ${giveToken}`;
    const info = async (): Promise<unknown> =>
      JSON.parse(await readFile(path.join(folder, "info"), "utf8"));
    const kind = { kind: "ExecCredential", apiVersion: "client.authentication.k8s.io/v1" };
    await token(await plugin(show));
    assert.deepEqual(await info(), { ...kind, spec: { interactive: false } });
    await token(await plugin(show, { fields: ", provideClusterInfo: true" }));
    const cluster = {
      server: "https://127.0.0.1:1",
      "tls-server-name": "api",
      "certificate-authority-data": "Q0E=",
      config: { audience: "7" },
    };
    assert.deepEqual(await info(), { ...kind, spec: { interactive: false, cluster } });
  });

  it("renews a token in the background before its end, and waits for one after it", async () => {
    const clock = new ManualClock(start);
    const expiring = `echo "{\\"status\\":{\\"token\\":\\"t$run\\",\\"expirationTimestamp\\":\\"2026-01-01T0$run:00:00Z\\"}}"`;
    const config = await plugin(expiring, { clock });
    assert.equal(await token(config), "Bearer t1");
    await clock.advance(58 * 60_000);
    assert.equal(await token(config), "Bearer t1");
    assert.equal(await runs(), 1);
    await clock.advance(90_000); // half a minute before it expires
    assert.equal(await token(config), "Bearer t1");
    while ((await token(config)) === "Bearer t1") await new Promise(setImmediate);
    assert.equal(await token(config), "Bearer t2");
    await clock.advance(61 * 60_000); // after the second one has expired
    assert.equal(await token(config), "Bearer t3");
    assert.equal(await runs(), 3);
  });

  it("does not run again for each request while its tokens have ended by our clock", async () => {
    const clock = new ManualClock(start);
    const ended = `echo "{\\"status\\":{\\"token\\":\\"t$run\\",\\"expirationTimestamp\\":\\"2025-12-31T23:00:00Z\\"}}"`;
    const config = await plugin(ended, { clock });
    for (let count = 0; count < 5; count++) assert.equal(await token(config), "Bearer t1");
    assert.equal(await runs(), 1);
    await clock.advance(11_000);
    assert.equal(await token(config), "Bearer t2");
  });

  it("runs once for many refused requests, and not again while each token is refused", async () => {
    const clock = new ManualClock(start);
    const config = await plugin(giveToken, { clock });
    const refused = await config.credentials();
    await clock.advance(60_000);
    for (let count = 0; count < 16; count++) {
      config.forget?.(refused);
      await config.credentials();
    }
    assert.equal(await runs(), 2);
    for (let count = 0; count < 16; count++) config.forget?.(await config.credentials());
    assert.equal(await runs(), 2);
    await clock.advance(11_000);
    assert.equal(await token(config), "Bearer t3");
  });

  it("answers with the error of a failed run for a while, then runs the plugin again", async () => {
    const clock = new ManualClock(start);
    const config = await plugin(
      `[ $run = 2 ] && { ${giveToken}; exit; }; echo no login >&2; exit 3`,
      {
        clock,
      },
    );
    for (let count = 0; count < 5; count++)
      await assert.rejects(config.credentials(), {
        code: "K8S_CREDENTIALS_FAILED",
        message: /exit code 3: no login/,
      });
    assert.equal(await runs(), 1);
    await clock.advance(1001);
    assert.equal(await token(config), "Bearer t2");
  });

  it("ends a plugin that takes too long, even if a child process holds its output open", async () => {
    const clock = new ManualClock(start);
    const config = await plugin("sleep 1000; sleep 1000", { clock });
    const waiting = config.credentials();
    const ended = assert.rejects(waiting, {
      code: "K8S_CREDENTIALS_FAILED",
      message: /it was ended/,
    });
    while ((await runs()) === 0) await new Promise(setImmediate);
    await clock.advance(60_000);
    await ended;
  });

  it("rejects an invalid credential without quoting it, and a plugin that needs a terminal", async () => {
    for (const output of [
      "secret",
      "{}",
      '{"status":{"token":""}}',
      '{"status":{"clientCertificateData":"c"}}',
      '{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"t"}}',
      '{"status":{"token":"t","expirationTimestamp":"soon"}}',
    ]) {
      const config = await plugin(`echo '${output}'`);
      await assert.rejects(config.credentials(), (error: Error & { code?: string }) => {
        assert.equal(error.code, "K8S_CREDENTIALS_FAILED");
        assert.doesNotMatch(error.message, /secret/);
        return true;
      });
    }
    await assert.rejects(plugin("true", { fields: ", interactiveMode: Always" }), {
      code: "KUBECONFIG_INVALID",
    });
  });
});
