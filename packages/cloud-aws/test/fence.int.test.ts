// What the real SDK sends after the leader's term is over, to a server that refuses some attempts.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { portOf } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { openSdkEc2 } from "../src/ec2/sdk-ec2.ts";
import { errorAnswer } from "../src/emulator/client-tokens.ts";

const overloaded = errorAnswer("InternalError", "try again", 500);
const done = (action: string): string =>
  `<${action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId></${action}Response>`;

/** An EC2 server that fails the first attempts, and calls back for each of them. */
async function openServer(failures: number, onAttempt: (action: string) => void) {
  const attempts: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const action = new URLSearchParams(body).get("Action") ?? "";
      attempts.push(action);
      onAttempt(action);
      const isFailure = attempts.length <= failures;
      response.writeHead(isFailure ? overloaded.status : 200, { "content-type": "text/xml" });
      response.end(isFailure ? overloaded.body : done(action));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    attempts,
    endpointURL: `http://127.0.0.1:${portOf(server)}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}

async function open(endpointURL: string, term?: () => { isHeld(): boolean }) {
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  return await openSdkEc2({ region: "us-east-1", credentials, endpointURL, term });
}

const instances = { InstanceIds: ["i-1"] };
const purpose = { purpose: "do it" };

describe("openSdkEc2()", { timeout: 60_000 }, () => {
  it("repeats a change that failed while the term is held", async () => {
    await using server = await openServer(2, () => {});
    using ec2 = await open(server.endpointURL, () => ({ isHeld: () => true }));
    await ec2.call("TerminateInstances", instances, purpose);
    assert.equal(server.attempts.length, 3);
  });

  it("sends no further attempt of a change once the term is over", async () => {
    for (const action of ["TerminateInstances", "ModifyInstanceAttribute"] as const) {
      let isHeld = true;
      await using server = await openServer(2, () => (isHeld = false));
      using ec2 = await open(server.endpointURL, () => ({ isHeld: () => isHeld }));
      const input = action === "TerminateInstances" ? instances : { InstanceId: "i-1" };
      await assert.rejects(ec2.call(action, input, purpose), (error) =>
        CloudError.is(error, "CLOUD_UNAVAILABLE"),
      );
      assert.deepEqual(server.attempts, [action]);
    }
  });

  it("sends no change after the term, and no attempt in a later term than the one it began in", async () => {
    let term = { isHeld: () => true };
    const begin = (): void => {
      const ended = term;
      ended.isHeld = () => false;
      term = { isHeld: () => true };
    };
    await using server = await openServer(2, begin);
    using ec2 = await open(server.endpointURL, () => term);
    await assert.rejects(ec2.call("TerminateInstances", instances, purpose), CloudError);
    assert.equal(server.attempts.length, 1);
    term.isHeld = () => false;
    await assert.rejects(ec2.call("TerminateInstances", instances, purpose), CloudError);
    assert.equal(server.attempts.length, 1);
  });

  it("reads also after the term", async () => {
    await using server = await openServer(1, () => {});
    using ec2 = await open(server.endpointURL, () => ({ isHeld: () => false }));
    await ec2.call("DescribeInstances", {}, purpose);
    assert.equal(server.attempts.length, 2);
  });
});
