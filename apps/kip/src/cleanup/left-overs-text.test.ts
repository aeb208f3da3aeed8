import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LeftOvers } from "@kip/kip";
import { isCosting, leftOversText } from "./left-overs-text.ts";

const instance = {
  id: "i-1",
  token: "u1",
  name: "cell-u1",
  owner: "kip",
  instanceType: "t3.small",
  launchType: "spot",
  state: "running",
  launchedAt: "2030-01-01T00:00:00Z",
  tags: {},
  cell: undefined,
  isOfThisCluster: true,
} as const;
const none: LeftOvers = { instances: [], volumes: [], hosts: [], cells: [] };

describe("leftOversText()", () => {
  it("says that nothing costs money, and which Cells are left all the same", () => {
    assert.equal(isCosting(none), false);
    assert.equal(leftOversText(none), "Nothing that costs money: no instances, no volumes.");
    const cells = [{} as LeftOvers["cells"][number]]; // only counted
    assert.match(leftOversText({ ...none, cells }), /1 Cell without an instance/);
  });

  it("names each thing that costs money, and where it belongs", () => {
    const cell = { metadata: { name: "cell-u1" }, spec: { nodeName: "kip" } };
    const left = {
      ...none,
      instances: [
        { ...instance, cell },
        { ...instance, id: "i-2" },
        { ...instance, id: "i-3", isOfThisCluster: false },
      ],
      volumes: [
        {
          id: "v-1",
          token: "v",
          name: "data",
          owner: "kip",
          sizeBytes: 2 ** 30,
          serial: "v",
          tags: {},
        },
      ],
    } as unknown as LeftOvers; // the fields that the text shows
    assert.equal(isCosting(left), true);
    assert.equal(
      leftOversText(left),
      `instance i-1  t3.small spot  running, since 2030-01-01T00:00:00Z  Cell cell-u1, node kip
instance i-2  t3.small spot  running, since 2030-01-01T00:00:00Z  no Cell
instance i-3  t3.small spot  running, since 2030-01-01T00:00:00Z  of another cluster with this testing.controllerID: it stays
volume v-1  1Gi  "data", attached to none
3 instances and 1 volume cost money.`,
    );
  });

  it("says why hosts are not known, and takes them for something that may cost money", () => {
    const left = { ...none, hostsUnknown: "Cannot list dedicated hosts: no right" };
    assert.equal(isCosting(left), true);
    assert.match(
      leftOversText(left),
      /^Dedicated hosts are not known. Cannot list dedicated hosts: no right$/m,
    );
  });

  it("counts a dedicated host as something that costs money, also without instances", () => {
    const host = {
      id: "h-1",
      owner: "kip",
      instanceType: "m5.large",
      zone: "us-east-1a",
      allocatedAt: "2030-01-01T00:00:00Z",
      instanceIds: [],
    };
    const left = { ...none, hosts: [host, { ...host, id: "h-2", instanceIds: ["i-1", "i-2"] }] };
    assert.equal(isCosting(left), true);
    assert.equal(
      leftOversText(left),
      `dedicated host h-1  m5.large in us-east-1a  since 2030-01-01T00:00:00Z  no instance
dedicated host h-2  m5.large in us-east-1a  since 2030-01-01T00:00:00Z  i-1, i-2
0 instances, 2 dedicated hosts and 0 volumes cost money.`,
    );
  });
});
