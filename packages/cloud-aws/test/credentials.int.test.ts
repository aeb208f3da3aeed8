// Credentials that no file and no configuration holds: the SDK gets them from a token of the cluster (IRSA).
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, it } from "node:test";
import { portOf } from "@kip/base";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

const role = "arn:aws:iam::123456789012:role/kip";

it(
  "IRSA: kip's calls have the credentials of its role, for which the pod's token is exchanged",
  {
    skip: (await whyNoMoto()) ?? false,
  },
  async () => {
    await using ec2 = await openTestEc2();
    const folder = await mkdtemp(path.join(tmpdir(), "kip-irsa-"));
    after(() => rm(folder, { recursive: true }));
    const tokenFile = path.join(folder, "token");
    await writeFile(tokenFile, "header.payload.signature");
    await using sts = await passOn(ec2.motoURL);
    await using api = await passOn(ec2.endpointURL);
    const environment = {
      AWS_ROLE_ARN: role,
      AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
      AWS_ROLE_SESSION_NAME: "kip",
      AWS_ENDPOINT_URL_STS: sts.url,
      // Nothing of the computer that the test runs on.
      AWS_CONFIG_FILE: "/dev/null",
      AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
      AWS_EC2_METADATA_DISABLED: "true",
    };
    Object.assign(process.env, environment);
    after(() => {
      for (const name of Object.keys(environment)) Reflect.deleteProperty(process.env, name);
    });
    await using driver = await ec2.open({ credentials: undefined, endpointURL: api.url });
    await driver.networkFacts();
    const [exchange, ...others] = sts.calls.map(({ body }) => new URLSearchParams(body));
    assert.deepEqual(others, [], "one exchange serves all calls");
    assert.equal(exchange?.get("Action"), "AssumeRoleWithWebIdentity");
    assert.equal(exchange.get("RoleArn"), role);
    assert.equal(exchange.get("WebIdentityToken"), "header.payload.signature");
    const [, key = ""] = /<AccessKeyId>([^<]+)</.exec(sts.calls[0]?.answer ?? "") ?? [];
    assert.match(key, /^ASIA/);
    assert.ok(api.calls.length > 1);
    for (const { authorization } of api.calls)
      assert.ok(authorization.includes(`Credential=${key}/`), authorization);
  },
);

interface PassedCall {
  readonly authorization: string;
  readonly body: string;
  readonly answer: string;
}

/** Passes calls of a query API on, and notes them. */
async function passOn(to: string) {
  const calls: PassedCall[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      const { authorization, "content-type": type = "" } = request.headers;
      const headers = {
        "content-type": type,
        ...(authorization !== undefined && { authorization }),
      };
      const passed = await fetch(to, { method: "POST", headers, body });
      const answer = await passed.text();
      calls.push({ authorization: authorization ?? "", body, answer });
      response.writeHead(passed.status, { "content-type": "text/xml" }).end(answer);
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    calls,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
