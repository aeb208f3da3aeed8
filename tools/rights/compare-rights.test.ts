import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compareRights, rightText } from "./compare-rights.ts";
import { readAuditLog } from "./read-audit-log.ts";

const line = (verb: string, objectRef: object | undefined, more: object = {}): string =>
  `${JSON.stringify({ kind: "Event", level: "Metadata", verb, objectRef, ...more })}\n`;
const pods = { resource: "pods", namespace: "default", name: "web", apiVersion: "v1" };
const cells = { resource: "cells", apiGroup: "kip.elotl.co", name: "cell-1" };

describe("readAuditLog()", () => {
  it("names each request once, and none for paths outside of resources", () => {
    const text =
      line("get", pods) +
      line("get", pods) +
      line("patch", { ...cells, subresource: "status" }) +
      line("get", undefined) +
      '{"verb":"get","obj';
    assert.deepEqual(readAuditLog(text).map(rightText), [
      "get pods in default",
      "patch cells.kip.elotl.co/status",
    ]);
  });

  it("counts an apply that has made its object as a creation, too", () => {
    const text = line("patch", cells, { responseStatus: { code: 201 } });
    assert.deepEqual(
      readAuditLog(text).map(({ verb }) => verb),
      ["patch", "create"],
    );
  });

  it("counts a request as the virtual node as the right to impersonate it", () => {
    const text = line("get", pods, { impersonatedUser: { username: "system:node:kip" } });
    assert.deepEqual(readAuditLog(text).map(rightText), [
      "impersonate users",
      "impersonate groups",
    ]);
  });

  it("sees what was refused", () => {
    const annotations = { "authorization.k8s.io/decision": "forbid" };
    assert.deepEqual(
      readAuditLog(line("get", pods, { annotations })).map(({ isAllowed }) => isAllowed),
      [false],
    );
  });
});

describe("compareRights()", () => {
  const rule = { apiGroups: [""], resources: ["pods"], verbs: ["get", "delete"] };
  const secrets = { apiGroups: [""], resources: ["secrets"], verbs: ["get"] };

  it("names rights that are unused, and requests that have none", () => {
    const uses = readAuditLog(line("get", pods) + line("list", pods));
    const { used, unused, missing } = compareRights(
      [{ namespace: undefined, rules: [rule] }],
      uses,
    );
    assert.deepEqual(used.map(rightText), ["get pods"]);
    assert.deepEqual(unused.map(rightText), ["delete pods"]);
    assert.deepEqual(missing.map(rightText), ["list pods in default"]);
  });

  it("takes a right in a namespace for requests there alone, and finds one that the cluster role has", () => {
    const inKip = { namespace: "kip-system", rules: [secrets] };
    const of = (namespace: string): string => line("get", { resource: "secrets", namespace });
    const uses = readAuditLog(of("kip-system") + of("default"));
    const alone = compareRights([inKip], uses);
    assert.deepEqual(alone.missing.map(rightText), ["get secrets in default"]);
    assert.deepEqual([alone.unused, alone.redundant], [[], []]);
    const both = compareRights([inKip, { namespace: undefined, rules: [secrets] }], uses);
    assert.deepEqual(both.redundant.map(rightText), ["get secrets in kip-system"]);
  });

  it("takes a right to one name for requests with it alone; one posted has none, one applied has it", () => {
    const rules = [{ ...secrets, verbs: ["get", "create"], resourceNames: ["own"] }];
    const of = (verb: string, name: string, more?: object): string =>
      line(verb, { resource: "secrets", namespace: "kip-system", name }, more);
    const applied = of("patch", "own", { responseStatus: { code: 201 } });
    const uses = readAuditLog(
      of("get", "own") + of("get", "other") + of("create", "own") + applied,
    );
    const { used, missing } = compareRights([{ namespace: undefined, rules }], uses);
    assert.deepEqual(used.map(rightText), ["get secrets (own)", "create secrets (own)"]);
    assert.deepEqual(
      missing.map(({ verb, name }) => `${verb} ${name}`),
      ["get other", "create undefined", "patch own"],
    );
  });

  it("names rights that are used under one name, or in one namespace, alone", () => {
    const get = { ...secrets, resources: ["secrets", "pods"] };
    const of = (resource: string, namespace: string, name: string): string =>
      line("get", { resource, namespace, name });
    const text =
      of("secrets", "kip-system", "own") + of("pods", "a", "web") + of("pods", "b", "db");
    const all = compareRights([{ namespace: undefined, rules: [get] }], readAuditLog(text));
    assert.deepEqual(all.wide, [
      "get secrets: one name, own",
      "get secrets: one namespace, kip-system",
    ]);
    const narrow = { ...secrets, resourceNames: ["own"] };
    const roles = [{ namespace: "kip-system", rules: [narrow] }];
    assert.deepEqual(compareRights(roles, readAuditLog(text)).wide, []);
  });
});
