import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import type { AnyCell } from "../cluster/list-cells.ts";
import { webState } from "./web-state.ts";

const now = Date.parse("2030-05-02T00:00:00Z");
const cell = (name: string, spec: object, more: object = {}): AnyCell =>
  ({
    metadata: { name, uid: name, creationTimestamp: "2030-05-01T22:00:00Z" },
    spec: {
      nodeName: "kip",
      instanceType: "t3.small",
      launchType: "spot",
      pricePerHour: 0.5,
      attempt: 0,
      ...spec,
    },
    ...more,
  }) as unknown as AnyCell; // the fields that are read
const podRef = { namespace: "shop", name: "web", uid: "u1" };
const web = {
  metadata: {
    name: "web",
    namespace: "shop",
    uid: "u1",
    creationTimestamp: "2030-05-01T22:00:00Z",
  },
  spec: { nodeName: "kip", containers: [] },
  status: { phase: "Pending" },
} as unknown as Pod; // likewise

describe("webState()", () => {
  it("puts the phases of a start one after the other", () => {
    const status = { phase: "Claimed", ip: "10.0.0.1", startMs: { api: 10, pull: 40, cloud: 500 } };
    const { cells } = webState(
      { cells: [cell("c1", { podRef }, { status })], pods: [], nodes: ["kip"] },
      now,
    );
    assert.deepEqual(cells[0]?.start, [
      { phase: "api", atMs: 0, ms: 10 },
      { phase: "cloud", atMs: 10, ms: 500 },
      { phase: "pull", atMs: 510, ms: 40 },
    ]);
    assert.deepEqual([cells[0]?.pod, cells[0]?.type], ["shop/web", "t3.small (spot)"]);
  });

  it("adds up prices, from the beginning of the month", () => {
    const old = { metadata: { name: "c2", uid: "c2", creationTimestamp: "2030-04-01T00:00:00Z" } };
    const cells = [cell("c1", { podRef }), cell("c2", {}, old)];
    const { cost } = webState({ cells, pods: [], nodes: [] }, now);
    assert.deepEqual(cost, { perHour: 1, perMonth: 730, thisMonth: 0.5 * 2 + 0.5 * 24 });
  });

  it("says what pods and standby cells wait for, and why", () => {
    const conditions = [
      { type: "Launched", status: "False", reason: "CloudNoCapacity", message: "No capacity" },
    ];
    const waiting = { status: { phase: "Pending", conditions } };
    const cells = [cell("c1", { podRef }, waiting), cell("standby-1", {}, waiting)];
    assert.deepEqual(webState({ cells, pods: [web], nodes: ["kip"] }, now).waits, [
      { name: "shop/web", since: "2030-05-01T22:00:00Z", why: "No capacity (CloudNoCapacity)" },
      { name: "standby-1", since: "2030-05-01T22:00:00Z", why: "No capacity (CloudNoCapacity)" },
    ]);
    const ready = cell("standby-1", {}, { status: { phase: "Ready", conditions } });
    assert.deepEqual(webState({ cells: [ready], pods: [], nodes: [] }, now).waits, []);
  });
});
