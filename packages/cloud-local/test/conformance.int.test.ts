import { after } from "node:test";
import { describeCloudDriver } from "@kip/cloud/testing";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptconf", 0);
after(() => test.remove());

describeCloudDriver("local cloud", {
  open: () => test.open(),
  openAsStranger: () => test.open({ owner: "stranger" }),
  imageSpec: { name: "idle" },
  consoleText: /tiny-guest=idle kip\.address=198\.18\./,
});
