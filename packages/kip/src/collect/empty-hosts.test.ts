import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger } from "@kip/base";
import { testHost, testHosts } from "../testing/test-hosts.ts";
import { hostRelease } from "./empty-hosts.ts";

describe("hostRelease()", () => {
  it("gives back hosts without instances and leaves the others", async () => {
    const busy = testHost("h-2", ["i-1"]);
    const hosts = testHosts(testHost("h-1"), busy);
    const logged: string[] = [];
    const release = hostRelease(hosts, loggerOf(logged));
    await release();
    await release();
    assert.deepEqual(hosts.hosts, [busy]);
    assert.equal(logged.length, 1);
    assert.match(logged[0] ?? "", /Gave back a dedicated host.*"host":"h-1"/);
  });

  it("says once why the cloud keeps a host, and once more when it keeps it again", async () => {
    const hosts = testHosts(testHost("h-1"));
    hosts.kept.set("h-1", "it is less than 24 hours old");
    const logged: string[] = [];
    const release = hostRelease(hosts, loggerOf(logged));
    await release();
    await release();
    assert.equal(logged.length, 1);
    assert.match(logged[0] ?? "", /keeps.*"host":"h-1".*less than 24 hours/);
    hosts.hosts = [testHost("h-1", ["i-1"])];
    await release();
    hosts.hosts = [testHost("h-1")];
    await release();
    assert.equal(logged.length, 2);
  });
});

function loggerOf(lines: string[]) {
  return createLogger({ level: "info", write: (line) => void lines.push(line) });
}
