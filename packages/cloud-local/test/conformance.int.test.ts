import { execFile } from "node:child_process";
import { after } from "node:test";
import { promisify } from "node:util";
import { describeCloudDriver } from "@kip/cloud/testing";
import { openLocalFaults, withFaultInjection } from "../src/faults/index.ts";
import type { LocalCloud } from "../src/index.ts";
import { MachineStore } from "../src/machine/machine-store.ts";
import { readView, writeLookingImage } from "./support/looking-image.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptconf", 0);
const { imagesDir, stateDir } = test.options;
after(() => test.remove());
await writeLookingImage(imagesDir, "looking");
const viewer = await test.open();
after(() => viewer[Symbol.asyncDispose]());

async function open(owner: string): Promise<LocalCloud> {
  return await withFaultInjection(await test.open({ owner }), { stateDir });
}

describeCloudDriver("local cloud", {
  open: () => open("tests"),
  openAsStranger: () => open("stranger"),
  imageSpec: { name: "idle" },
  consoleText: /tiny-guest=idle kip\.address=198\.18\./,
  faults: openLocalFaults({ stateDir }),
  userDataOf: async ({ id }) => {
    const { seed } = new MachineStore(stateDir).files(id);
    const args = ["-R", "-i", seed, "-x", "/user-data"];
    return (await promisify(execFile)("isoinfo", args, { encoding: "buffer" })).stdout;
  },
  guest: {
    imageSpec: { name: "looking" },
    look: async ({ id }) => readView(await viewer.consoleOutput(id, 4096)),
  },
});
