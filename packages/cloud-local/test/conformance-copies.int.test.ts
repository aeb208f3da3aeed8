import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { LaunchRequest } from "@kip/cloud";
import { describeCloudDriver } from "@kip/cloud/testing";
import { openLocalFaults, withFaultInjection } from "../src/faults/index.ts";
import type { LocalCloud } from "../src/index.ts";
import { readView, writeLookingImage } from "./support/looking-image.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const test = await prepareTestCloud("kiptcopy", 7);
const { imagesDir, stateDir } = test.options;
after(() => test.remove());
await writeLookingImage(imagesDir, "looking", true);
const viewer = await test.open();
after(() => viewer[Symbol.asyncDispose]());
await viewer.prepareNetwork();
for (const type of ["local.nano", "local.micro"]) await viewer.prepareTemplate(type, "looking", 0);

const starts = { boot: 0, template: 0, "image-template": 0 };

async function open(owner: string): Promise<LocalCloud> {
  const cloud = await withFaultInjection(await test.open({ owner }), { stateDir });
  const launch = async (request: LaunchRequest, signal?: AbortSignal) => {
    const instance = await cloud.launch(request, signal);
    starts[instance.startedFrom ?? "boot"]++;
    return instance;
  };
  return new Proxy(cloud, {
    get: (target, name): unknown => (name === "launch" ? launch : Reflect.get(target, name)),
  });
}

describeCloudDriver("local cloud, copies", {
  open: () => open("tests"),
  openAsStranger: () => open("stranger"),
  imageSpec: { name: "looking" },
  consoleText: /view \d+/,
  faults: openLocalFaults({ stateDir }),
  guest: {
    imageSpec: { name: "looking" },
    look: async ({ id }) => readView(await viewer.consoleOutput(id, 4096)),
  },
  // This cloud's calls are not counted. The tests with booting machines cover the rest.
});

describe("the machines of these tests", () => {
  it("were copies, but for those with a disk of their own size", () => {
    assert.ok(starts.template > 10 * starts.boot, JSON.stringify(starts));
  });
});
