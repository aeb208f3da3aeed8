import { after } from "node:test";
import { openLocalAdversity, withAdversity } from "../src/adversity/index.ts";
import type { LocalCloud } from "../src/index.ts";
import { describeCloudDriver } from "@kip/cloud/testing";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptconf", 0);
const { stateDir } = test.options;
after(() => test.remove());

async function open(owner: string): Promise<LocalCloud> {
  return await withAdversity(await test.open({ owner }), { stateDir });
}

describeCloudDriver("local cloud", {
  open: () => open("tests"),
  openAsStranger: () => open("stranger"),
  imageSpec: { name: "idle" },
  consoleText: /tiny-guest=idle kip\.address=198\.18\./,
  adversity: openLocalAdversity({ stateDir }),
});
