// Credentials that are in no file and no configuration: the SDK gets them for a token of the cluster (IRSA, EKS Pod Identity).
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, it } from "node:test";
import { portOf } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { openSdkEc2 } from "../src/ec2/sdk-ec2.ts";
import { whyNoMoto } from "../src/emulator/moto-server.ts";
import { openTestEc2 } from "./support/test-ec2.ts";

const role = "arn:aws:iam::123456789012:role/kip";
/** The response of STS to an exchange. */
const exchanged = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`;

it(
  "IRSA: kip's calls have the credentials of its role, for which the pod's token is exchanged",
  {
    skip: (await whyNoMoto()) ?? false,
  },
  async () => {
    await using ec2 = await openTestEc2();
    await using sts = await passOn(ec2.motoURL);
    await using api = await passOn(ec2.endpointURL);
    await irsaAt(sts.url);
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

it("EKS Pod Identity: kip's calls have the credentials that its agent gives for the token, also for the next token", async () => {
  const tokenFile = await fileWith("token-1");
  const asked: (string | undefined)[] = [];
  const signed: string[] = [];
  await using agent = await serve(({ headers }, response) => {
    asked.push(headers.authorization);
    const isFirst = headers.authorization === "token-1";
    const credentials = {
      AccessKeyId: isFirst ? "FIRST" : "SECOND",
      SecretAccessKey: "secret",
      Token: "session",
      // The first credentials are already expired, so each call requests new ones.
      Expiration: new Date(Date.now() + (isFirst ? -1000 : 3_600_000)).toISOString(),
    };
    response.setHeader("content-type", "application/json").end(JSON.stringify(credentials));
  });
  await using api = await serve(({ headers }, response) => {
    signed.push(/Credential=(\w+)/.exec(headers.authorization ?? "")?.[1] ?? "");
    response.end("<DescribeVpcsResponse/>");
  });
  setEnvironment({
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${agent.url}/v1/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: tokenFile,
  });
  using ec2 = await openSdkEc2({ region: "us-east-1", endpointURL: api.url });
  const call = async () => await ec2.call("DescribeVpcs", {}, { purpose: "look" });
  await call();
  await writeFile(tokenFile, "token-2");
  await call();
  await call();
  assert.deepEqual(signed, ["FIRST", "SECOND", "SECOND"]);
  assert.deepEqual([...new Set(asked)], ["token-1", "token-2"]);
  assert.equal(asked.filter((token) => token === "token-2").length, 1, "kept until it expires");
});

it(
  "IRSA: a call that is given up while STS has not answered ends at once, and is not sent after that",
  { timeout: 15_000 },
  async () => {
    const givenUp = new AbortController();
    const mayAnswer = Promise.withResolvers<void>();
    const sent: string[] = [];
    await using aws = await serve((request, response) => {
      void (async () => {
        const action = new URLSearchParams(await text(request)).get("Action") ?? "";
        if (action !== "AssumeRoleWithWebIdentity") {
          sent.push(action);
          response.end(`<${action}Response/>`);
          return;
        }
        givenUp.abort(new Error("given up"));
        await mayAnswer.promise;
        response.end(exchanged);
      })();
    });
    await irsaAt(aws.url);
    using ec2 = await openSdkEc2({ region: "us-east-1", endpointURL: aws.url });
    const { signal } = givenUp;
    const launch = { MinCount: 1, MaxCount: 1 };
    const launching = ec2.call("RunInstances", launch, { purpose: "start", signal });
    await assert.rejects(launching, /^Error: given up$/);
    mayAnswer.resolve();
    await ec2.call("DescribeVpcs", {}, { purpose: "look" });
    assert.deepEqual(sent, ["DescribeVpcs"]);
  },
);

it("IRSA: says what is wrong with the role or the token where STS refuses the exchange", async () => {
  let [code, status] = ["", 400];
  await using sts = await serve(({ url = "" }, response) => {
    assert.equal(url, "/", "nothing but STS is called");
    const isDenied = code === "AccessDenied";
    const message = isDenied ? "Not authorized to perform sts:AssumeRoleWithWebIdentity" : "No";
    const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error>`;
    const body = `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">${error}</ErrorResponse>`;
    response.writeHead(status, { "content-type": "text/xml" }).end(body);
  });
  const tokenFile = await irsaAt(sts.url);
  const failure = async () => {
    using ec2 = await openSdkEc2({
      region: "us-east-1",
      endpointURL: `${sts.url}/ec2`,
      attempts: 1,
    });
    const run = ec2.call("RunInstances", { MinCount: 1, MaxCount: 1 }, { purpose: "start" });
    const [settled] = await Promise.allSettled([run]);
    assert.ok(settled.status === "rejected" && CloudError.is(settled.reason));
    return settled.reason;
  };
  for (const [name, expected, http] of [
    ["AccessDenied", "CLOUD_AUTH", 403],
    ["InvalidIdentityToken", "CLOUD_AUTH", 400],
    ["IDPRejectedClaim", "CLOUD_AUTH", 403],
    ["RegionDisabledException", "CLOUD_AUTH", 403],
    ["ExpiredTokenException", "CLOUD_AUTH", 400],
    ["IDPCommunicationError", "CLOUD_UNAVAILABLE", 400],
  ] as const) {
    [code, status] = [name, http];
    const error = await failure();
    assert.equal(error.code, expected, name);
    const isAboutTrust = (error.remedy ?? "").includes("trust policy of kip's role");
    assert.equal(isAboutTrust, name === "AccessDenied", error.remedy);
  }
  await rm(tokenFile);
  const error = await failure();
  assert.equal(error.code, "CLOUD_AUTH");
  assert.match(error.message, new RegExp(`ENOENT.*${tokenFile}`));
});

/** Makes the SDK exchange a token at this STS. Returns the token's file. */
async function irsaAt(stsURL: string): Promise<string> {
  const tokenFile = await fileWith("header.payload.signature");
  setEnvironment({
    AWS_ROLE_ARN: role,
    AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
    AWS_ROLE_SESSION_NAME: "kip",
    AWS_ENDPOINT_URL_STS: stsURL,
  });
  return tokenFile;
}

async function fileWith(content: string): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "kip-credentials-"));
  after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, "token");
  await writeFile(file, content);
  return file;
}

/** Sets variables until the calling test ends. */
function setEnvironment(variables: Readonly<Record<string, string>>): void {
  const environment = {
    ...variables,
    // Nothing from the computer that runs the test.
    AWS_CONFIG_FILE: "/dev/null",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
    AWS_EC2_METADATA_DISABLED: "true",
  };
  Object.assign(process.env, environment);
  after(() => {
    for (const name of Object.keys(environment)) Reflect.deleteProperty(process.env, name);
  });
}

interface PassedCall {
  readonly authorization: string;
  readonly body: string;
  readonly answer: string;
}

/** Forwards calls of a query API and records them. */
async function passOn(to: string) {
  const calls: PassedCall[] = [];
  const server = await serve((request, response) => {
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
  return { ...server, calls };
}

/** A server on loopback. */
async function serve(listener: RequestListener) {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
