import { describeCloudDriver } from "../testing/index.ts";
import { createSimulatedCloud } from "./simulated-cloud.ts";

const cloud = createSimulatedCloud({ callMs: { minMs: 0, maxMs: 3 }, startMs: 5, stopMs: 5 });

describeCloudDriver("simulated cloud", {
  open: async () => await Promise.resolve(cloud.open({ owner: "tests" })),
  openAsStranger: async () => await Promise.resolve(cloud.open({ owner: "stranger" })),
  imageSpec: { name: "cell" },
  consoleText: /Simulated instance/,
});
