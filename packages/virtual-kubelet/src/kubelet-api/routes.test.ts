import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { findRoute, routeAction } from "./routes.ts";

describe("findRoute()", () => {
  it("finds the kubelet's paths, with and without a UID", () => {
    const pod = { namespace: "ns", pod: "p" };
    assert.deepEqual(findRoute("/healthz"), { kind: "healthz" });
    assert.deepEqual(findRoute("/pods"), { kind: "pods" });
    assert.deepEqual(findRoute("/runningpods/"), { kind: "runningPods" });
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

  it("finds nothing elsewhere", () => {
    for (const path of ["", "/", "/run/ns/p/c", "/exec/ns/p", "/exec/ns//c", "/exec/a/b/c/d/e"])
      assert.equal(findRoute(path), undefined, path);
    assert.equal(findRoute("/exec/%E0%A4%A/p/c"), undefined);
    assert.equal(findRoute("/logs/messages"), undefined);
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

describe("routeAction()", () => {
  it("counts opening a stream as create and names fine-grained resources first", () => {
    const action = (path: string): object => {
      const route = findRoute(path);
      assert.ok(route);
      return routeAction(route, path);
    };
    assert.deepEqual(action("/exec/ns/p/c"), {
      verb: "create",
      subresources: ["proxy"],
      path: "/exec/ns/p/c",
    });
    assert.deepEqual(action("/pods"), {
      verb: "get",
      subresources: ["pods", "proxy"],
      path: "/pods",
    });
  });
});
