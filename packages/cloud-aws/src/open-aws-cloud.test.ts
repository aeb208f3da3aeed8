import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { openAwsCloud } from "./open-aws-cloud.ts";

describe("openAwsCloud()", () => {
  it("says what to do in a region without built-in prices, before AWS is asked", async () => {
    for (const [region, code] of [
      ["cn-north-1", "CATALOG_UNKNOWN"],
      ["ap-east-2", "CATALOG_UNKNOWN"],
    ] as const)
      await assert.rejects(
        openAwsCloud({ owner: "me", region, endpointURL: "http://127.0.0.1:9" }),
        (error) =>
          isCodedError(error) &&
          error.code === code &&
          error.message.includes(`no region of aws "${region}"`) &&
          /give --instance-data-path/.test(error.remedy ?? ""),
      );
  });

  it("ends at once when it is asked to end while EC2 gives no answer", async () => {
    await using server = createServer(() => {}).listen(0, "127.0.0.1");
    await once(server, "listening");
    using sockets = new DisposableStack();
    const { port } = server.address() as AddressInfo; // it listens on a port
    const stop = new AbortController();
    server.once("connection", (socket) => {
      socket.on("error", () => {});
      sockets.defer(() => void socket.destroy());
      stop.abort(new Error("SIGTERM received"));
    });
    const opening = openAwsCloud({
      owner: "me",
      region: "us-east-1",
      subnetID: "subnet-1",
      endpointURL: `http://127.0.0.1:${port}`,
      credentials: { accessKeyId: "a", secretAccessKey: "b" },
      signal: stop.signal,
    });
    await assert.rejects(opening, /SIGTERM/);
  });
});
