import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { identityPath, userData } from "./user-data.ts";

describe("userData()", () => {
  it("node impersonation: has the identity of the machine and no credential of the cluster", () => {
    const identity = { cellName: "cell-1", ca: "CA", certificate: "CERTIFICATE", key: "KEY" };
    const [head, body = ""] = userData(identity).split("\n");
    assert.equal(head, "#cloud-config");
    const document = JSON.parse(body) as Readonly<Record<string, unknown>>;
    // All of it, so that whatever is added must be looked at here.
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
});
