import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import https from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { createSelfSigned, type KeyPair } from "@kip/pki";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { loadKubeConfig, type KubeConfig } from "./kubeconfig.ts";

const start = Date.parse("2030-01-01T00:00:00Z");
const folder = temporaryFolder();
after(() => folder.remove());

let identity: KeyPair;
let server: https.Server;
let issuer: string;
/** The requests to the issuer, and its answers: these tokens, or none. */
let renewals: string[];
let answers: object[];
/** How clients may send their secret to the issuer, and how they did. */
let accepts: (authorization: string | undefined, form: URLSearchParams) => boolean;
let logIns: string[];

before(async () => {
  identity = await createSelfSigned({
    commonName: "issuer",
    ipAddresses: ["127.0.0.1"],
    usages: ["server"],
    validMs: 3_600_000,
  });
  server = https.createServer({ cert: identity.certificate, key: identity.key });
  server.on("request", (request, response) => void answer(request.url ?? "", request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => void server.close());
beforeEach(() => {
  renewals = [];
  answers = [];
  logIns = [];
  accepts = () => true;
});

async function answer(
  url: string,
  request: AsyncIterable<Buffer> & {
    readonly headers: { readonly authorization?: string | undefined };
  },
  response: { writeHead(status: number, headers?: object): unknown; end(text?: string): unknown },
): Promise<void> {
  const json = { "Content-Type": "application/json" };
  if (url === "/.well-known/openid-configuration") {
    response.writeHead(200, json);
    return void response.end(JSON.stringify({ issuer, token_endpoint: `${issuer}/token` }));
  }
  let text = "";
  for await (const chunk of request) text += chunk.toString();
  const form = new URLSearchParams(text);
  const { authorization } = request.headers;
  logIns.push(
    `${authorization ?? "-"} ${form.get("client_id") ?? "-"} ${form.get("client_secret") ?? "-"}`,
  );
  if (!accepts(authorization, form)) {
    response.writeHead(401, json);
    return void response.end(JSON.stringify({ error: "invalid_client" }));
  }
  renewals.push(form.get("refresh_token") ?? "");
  const tokens = answers.shift();
  response.writeHead(tokens ? 200 : 503, json);
  return void response.end(JSON.stringify(tokens ?? { error: "temporarily_unavailable" }));
}

/** An ID token that expires this many minutes after the start. */
function idToken(minutes: number): string {
  const claims = { exp: start / 1000 + minutes * 60 };
  return ["{}", JSON.stringify(claims), "s"]
    .map((part) => Buffer.from(part).toString("base64url"))
    .join(".");
}

async function configWith(
  fields: Readonly<Record<string, string>>,
  clock: ManualClock,
): Promise<KubeConfig> {
  const ca = Buffer.from(identity.certificate).toString("base64");
  const provider = {
    name: "oidc",
    config: {
      "idp-issuer-url": issuer,
      "idp-certificate-authority-data": ca,
      "client-id": "kip",
      ...fields,
    },
  };
  const document = {
    "current-context": "one",
    contexts: [{ name: "one", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: "https://192.0.2.1:6443" } }],
    users: [{ name: "u", user: { "auth-provider": provider } }],
  };
  const file = path.join(folder.path, "config");
  await writeFile(file, JSON.stringify(document));
  return await loadKubeConfig({ path: file, clock });
}

const token = async (config: KubeConfig): Promise<unknown> =>
  (await config.credentials()).headers["Authorization"];

describe("oidcAuthenticator()", () => {
  it("renews a token that has ended, once for all that wait, and keeps the new refresh token", async () => {
    const clock = new ManualClock(start);
    const config = await configWith({ "id-token": idToken(5), "refresh-token": "r1" }, clock);
    assert.equal(await token(config), `Bearer ${idToken(5)}`);
    assert.deepEqual(renewals, []);
    answers.push(
      { id_token: idToken(10), refresh_token: "r2" },
      { id_token: idToken(20), refresh_token: "r3" },
    );
    await clock.advance(5 * 60_000);
    const waiting = await Promise.all([token(config), token(config)]);
    assert.deepEqual(waiting, [`Bearer ${idToken(10)}`, `Bearer ${idToken(10)}`]);
    await clock.advance(5 * 60_000);
    assert.equal(await token(config), `Bearer ${idToken(20)}`);
    assert.deepEqual(renewals, ["r1", "r2"]);
  });

  it("asks an issuer that refuses again only after a pause, which grows", async () => {
    const clock = new ManualClock(start);
    const config = await configWith({ "id-token": idToken(0), "refresh-token": "r1" }, clock);
    const failed = { code: "K8S_CREDENTIALS_FAILED" };
    for (let request = 0; request < 5; request++) await assert.rejects(token(config), failed);
    assert.equal(renewals.length, 1);
    await clock.advance(1000);
    for (let request = 0; request < 5; request++) await assert.rejects(token(config), failed);
    assert.equal(renewals.length, 2);
    await clock.advance(1000);
    await assert.rejects(token(config), failed);
    assert.equal(renewals.length, 2);
    answers.push({ id_token: idToken(10) });
    await clock.advance(1000);
    assert.equal(await token(config), `Bearer ${idToken(10)}`);
  });

  it("fails for good when the token has ended and there is nothing to renew it with, and names what lacks", async () => {
    const clock = new ManualClock(start);
    const fields = { "id-token": idToken(0), "idp-issuer-url": "" };
    const config = await configWith(fields, clock);
    await assert.rejects(token(config), {
      code: "K8S_CREDENTIALS_FAILED",
      message: /its auth-provider has no refresh-token, idp-issuer-url$/,
      retryable: false,
    });
    assert.deepEqual(renewals, []);
  });

  it("sends no refresh token to an issuer without TLS", async () => {
    const clock = new ManualClock(start);
    const fields = { "idp-issuer-url": "http://127.0.0.1:1", "refresh-token": "r1" };
    const config = await configWith(fields, clock);
    await assert.rejects(token(config), /http:/);
  });

  it("sends the client secret in a header, and in the form from then on to an issuer that refuses that", async () => {
    const clock = new ManualClock(start);
    const fields = { "id-token": idToken(0), "refresh-token": "r1", "client-secret": "s:1" };
    const inHeader = `Basic ${Buffer.from("kip:s%3A1").toString("base64")}`;
    answers.push({ id_token: idToken(5) });
    assert.equal(await token(await configWith(fields, clock)), `Bearer ${idToken(5)}`);
    assert.deepEqual(logIns, [`${inHeader} - -`]);
    logIns = [];
    accepts = (authorization, form) =>
      authorization === undefined && form.get("client_secret") === "s:1";
    answers.push({ id_token: idToken(5) }, { id_token: idToken(10) });
    const config = await configWith(fields, clock);
    assert.equal(await token(config), `Bearer ${idToken(5)}`);
    await clock.advance(5 * 60_000);
    assert.equal(await token(config), `Bearer ${idToken(10)}`);
    assert.deepEqual(logIns, [`${inHeader} - -`, "- kip s:1", "- kip s:1"]);
  });

  it("keeps its refresh token if the issuer gives an empty one", async () => {
    const clock = new ManualClock(start);
    const config = await configWith({ "id-token": idToken(0), "refresh-token": "r1" }, clock);
    answers.push({ id_token: idToken(5), refresh_token: "" }, { id_token: idToken(10) });
    await token(config);
    await clock.advance(5 * 60_000);
    assert.equal(await token(config), `Bearer ${idToken(10)}`);
    assert.deepEqual(renewals, ["r1", "r1"]);
  });
});
