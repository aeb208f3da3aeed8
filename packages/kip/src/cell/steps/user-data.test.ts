import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { identityInUserData } from "@kip/agent-api/testing";
import { cloudLimits } from "@kip/cloud";
import { identityPath, userData } from "./user-data.ts";

describe("userData()", () => {
  it("node impersonation: has the identity of the machine and no credential of the cluster", () => {
    const identity = { cellName: "cell-1", ca: "CA", certificate: "CERTIFICATE", key: "KEY" };
    const [head, body = ""] = Buffer.from(userData(identity)).toString().split("\n");
    assert.equal(head, "#cloud-config");
    const document = JSON.parse(body) as Readonly<Record<string, unknown>>;
    // Compare all of it, so that every addition has to be reviewed here.
    assert.deepEqual(document, {
      write_files: [
        {
          path: identityPath,
          permissions: "0600",
          owner: "root:root",
          content: JSON.stringify(identity),
        },
      ],
    });
  });

  it("is compressed when it is long, and then fits where it did not", () => {
    const ca = Array.from(
      { length: 40 },
      (_, at) => `-----BEGIN CERTIFICATE-----\n${"MIIB".repeat(300)}${at}\n`,
    );
    const identity = { cellName: "cell-1", ca: ca.join(""), certificate: "C", key: "K" };
    const data = userData(identity);
    assert.ok(Buffer.byteLength(JSON.stringify(identity)) > cloudLimits.userDataBytes);
    assert.ok(data.length < cloudLimits.userDataBytes, `${data.length} bytes`);
    assert.deepEqual(identityInUserData(data), identity);
    assert.equal(data[0], 0x1f);
  });
});
