import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { findRoute, requestAction } from "./routes.ts";

describe("findRoute()", () => {
  it("finds the kubelet's paths, with and without a UID", () => {
    const pod = { namespace: "ns", pod: "p" };
    assert.deepEqual(findRoute("/healthz"), { kind: "health" });
    assert.deepEqual(findRoute("/healthz/syncloop"), { kind: "health", check: "syncloop" });
    assert.deepEqual(findRoute("/pods"), { kind: "pods" });
    assert.deepEqual(findRoute("/runningpods/"), { kind: "runningPods" });
    assert.deepEqual(findRoute("/metrics"), { kind: "metrics" });
    assert.deepEqual(findRoute("/metrics/resource/"), { kind: "resourceMetrics" });
    assert.deepEqual(findRoute("/containerLogs/ns/p/c"), {
      kind: "containerLogs",
      ...pod,
      container: "c",
    });
    assert.deepEqual(findRoute("/exec/ns/p/c"), { kind: "exec", ...pod, container: "c" });
    assert.deepEqual(findRoute("/attach/ns/p/u1/c"), {
      kind: "attach",
      ...pod,
      uid: "u1",
      container: "c",
    });
    assert.deepEqual(findRoute("/portForward/ns/p"), { kind: "portForward", ...pod });
    assert.deepEqual(findRoute("/portForward/ns/p/u1"), { kind: "portForward", ...pod, uid: "u1" });
  });

  it("CVE-2024-9042, CVE-2025-0426, KHV047: knows the paths that a kubelet can have switched off", () => {
    for (const path of ["/run/ns/p/c", "/logs", "/logs/", "/checkpoint/a/b/c", "/debug/pprof"])
      assert.equal(findRoute(path)?.kind, "disabled", path);
  });

  it("finds logs of the node itself, without a way out of them", () => {
    assert.deepEqual(findRoute("/logs/cells/c/console"), {
      kind: "nodeLog",
      path: "cells/c/console",
    });
    assert.equal(findRoute("/logs//etc"), undefined);
  });

  it("finds nothing elsewhere", () => {
    for (const path of ["", "/", "/exec/ns/p", "/exec/ns//c", "/exec/a/b/c/d/e", "//pods"])
      assert.equal(findRoute(path), undefined, path);
    assert.equal(findRoute("/exec/%E0%A4%A/p/c"), undefined);
    assert.equal(findRoute("/constructor"), undefined);
  });

  it("takes any path", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("/", "%", "a", "exec", "2") }),
        (path) => void findRoute(path),
      ),
    );
  });
});

describe("requestAction()", () => {
  it("names fine-grained resources first, and verbs by method", () => {
    const action = (method: string, path: string): string => {
      const { verb, subresources } = requestAction(method, path);
      return `${verb} ${subresources.join(" ")}`;
    };
    assert.equal(action("GET", "/pods"), "get pods proxy");
    assert.equal(action("GET", "/runningpods/"), "get pods proxy");
    assert.equal(action("GET", "/healthz/ping"), "get healthz proxy");
    assert.equal(action("GET", "/configz"), "get configz proxy");
    assert.equal(action("GET", "/stats/summary"), "get stats");
    assert.equal(action("GET", "/metrics/resource"), "get metrics");
    assert.equal(action("GET", "/logs/messages"), "get log");
    assert.equal(action("POST", "/checkpoint/ns/p/c"), "create checkpoint");
    assert.equal(action("GET", "/containerLogs/ns/p/c"), "get proxy");
    assert.equal(action("GET", "/podsandmore"), "get proxy");
    assert.equal(action("PUT", "/"), "update proxy");
    assert.equal(action("DELETE", "/pods"), "delete pods proxy");
  });

  it("nodes/proxy: counts opening a stream as create, whatever the method and the spelling", () => {
    for (const path of ["/exec/ns/p/c", "/%65xec/ns/p/c", "/attach/x", "/portForward/x", "/run/x"])
      assert.equal(requestAction("GET", path).verb, "create", path);
  });
});
