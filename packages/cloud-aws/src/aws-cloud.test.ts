import assert from "node:assert/strict";
import { it } from "node:test";
import { ManualClock } from "@kip/testing";
import { fakeCloud } from "./testing/fake-ec2.ts";

it("AwsCloud labels the node so that the DaemonSets of EKS, which tolerate each taint, stay away", () => {
  const { nodeLabels } = fakeCloud(new ManualClock(), {}).cloud;
  // The DaemonSets of EKS require of a node: eks.amazonaws.com/compute-type NotIn [fargate, …].
  assert.deepEqual(nodeLabels, { "eks.amazonaws.com/compute-type": "fargate" });
});
