import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { statusError } from "./status-error.ts";

const request = { method: "GET", path: "/x" };

describe("statusError()", () => {
  it("tells a conflict from an object that exists", () => {
    const body = (reason: string): string => JSON.stringify({ kind: "Status", reason });
    const of = (reason: string): string =>
      statusError(request, { status: 409, retryAfter: undefined, body: body(reason) }).code;
    assert.equal(of("AlreadyExists"), "K8S_ALREADY_EXISTS");
    assert.equal(of("Conflict"), "K8S_CONFLICT");
  });

  it("keeps the time to wait", () => {
    const error = statusError(request, { status: 429, retryAfter: "3", body: "slow" });
    assert.equal(error.code, "K8S_TOO_MANY_REQUESTS");
    assert.equal(error.retryAfterMs, 3000);
    assert.equal(error.retryable, true);
  });

  it("keeps the time to wait of each refusal, also of those that are not repeated by themselves", () => {
    for (const status of [400, 401, 403, 404, 408, 409, 410, 422, 429, 500, 503]) {
      const error = statusError(request, { status, retryAfter: "3", body: "" });
      assert.equal(error.retryAfterMs, 3000, String(status));
    }
  });

  it("keeps no time to wait above ten minutes or below zero", () => {
    for (const [retryAfter, ms] of [
      ["86400", 600_000],
      ["-5", 0],
      ["Fri, 31 Dec 1999 23:59:59 GMT", undefined],
    ] as const) {
      const { retryAfterMs } = statusError(request, { status: 503, retryAfter, body: "" });
      assert.equal(retryAfterMs, ms);
    }
  });

  it("quotes what is no Status, but not all of it", () => {
    const answer = { status: 502, retryAfter: undefined, body: "<html>".repeat(1000) };
    const error = statusError(request, answer);
    assert.equal(error.code, "K8S_UNAVAILABLE");
    assert.ok(error.message.length < 300);
  });
});
