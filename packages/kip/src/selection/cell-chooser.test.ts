import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { growth } from "@kip/base/testing";
import type { CloudDriver } from "@kip/cloud";
import { podWith } from "@kip/k8s-types/testing";
import { cellAnnotations } from "./cell-annotations.ts";
import { CellChooser, type CellRequest } from "./cell-chooser.ts";

const driver = {
  instanceTypes: async () => [
    {
      name: "local.small",
      cpuMilli: 1000,
      memoryBytes: 2 ** 30,
      gpus: 0,
      pricePerHour: { "on-demand": 0 },
    },
  ],
  resolveImage: async () => "image",
} as unknown as CloudDriver; // all that is asked for

const chooser = new CellChooser(driver, () => ({
  nodeName: "node",
  controllerID: "controller",
  defaultInstanceType: undefined,
  defaultVolumeBytes: 5 * 2 ** 30,
  imageSpec: {},
  privateIPOnly: false,
}));

/** What is chosen for a pod with these annotations. */
async function choose(annotations: Record<string, string>) {
  const pod = { metadata: { annotations }, spec: { containers: [] } };
  return await chooser.choose({ pod } as unknown as CellRequest); // all that is looked at
}

async function isRefused(annotations: Record<string, string>, code: string): Promise<void> {
  await assert.rejects(choose(annotations), (error) => {
    // It becomes an event of the pod.
    return isCodedError(error) && error.code === code && String(error).length < 500;
  });
}

describe("CellChooser.sizeOf()", () => {
  it("is what the type of the pod's cell offers, with the disk that the pod wants", async () => {
    const annotations = { [cellAnnotations.volumeSize]: "7Gi" };
    const pod = podWith({ metadata: { annotations } });
    const size = { cpu: "1000m", memory: "1Gi", "ephemeral-storage": "7Gi" };
    assert.deepEqual(await chooser.sizeOf(pod), size);
    assert.deepEqual(await chooser.sizeOf(pod, "local.small"), size);
    assert.equal(await chooser.sizeOf(pod, "local.gone"), undefined);
    const none = podWith({ metadata: { annotations: { [cellAnnotations.instanceType]: "x" } } });
    assert.equal(await chooser.sizeOf(none), undefined);
  });
});

describe("CellChooser.choose()", () => {
  it("takes type and disk from the annotations", async () => {
    const { instanceType, rootDiskBytes } = await choose({
      [cellAnnotations.instanceType]: "local.*",
      [cellAnnotations.volumeSize]: "7Gi",
    });
    assert.deepEqual([instanceType, rootDiskBytes], ["local.small", 7 * 2 ** 30]);
  });

  it("adds what the pod requests of ephemeral storage to the disk", async () => {
    const requests = { "ephemeral-storage": "3Gi" };
    const pod = podWith({ spec: { containers: [{ name: "main", resources: { requests } }] } });
    const { rootDiskBytes } = await chooser.choose({ pod } as unknown as CellRequest); // all that is looked at
    assert.equal(rootDiskBytes, 8 * 2 ** 30);
  });

  it("refuses an instance type that is too long", async () => {
    for (const letter of ["a", "*"])
      await isRefused({ [cellAnnotations.instanceType]: letter.repeat(254) }, "ANNOTATION_INVALID");
  });

  it("refuses a size that no disk has", async () => {
    for (const size of ["0", "-5Gi", "9E"])
      await isRefused({ [cellAnnotations.volumeSize]: size }, "ANNOTATION_INVALID");
    await isRefused({ [cellAnnotations.volumeSize]: "0e999" }, "QUANTITY_INVALID");
  });

  it("takes linear time for annotations of the largest size, and quotes little of them", async () => {
    for (const [name, text, code] of [
      [cellAnnotations.instanceType, "*a", "ANNOTATION_INVALID"],
      [cellAnnotations.launchType, "x", "ANNOTATION_INVALID"],
      [cellAnnotations.volumeSize, "1", "QUANTITY_INVALID"],
    ] as const) {
      const read = async (size: number): Promise<void> =>
        await isRefused({ [name]: `${text.repeat(size / text.length)}x` }, code);
      assert.ok((await growth(read, 256 * 1024)) < 40, name);
    }
  });

  it("does not return to an earlier star of a pattern", async () => {
    await isRefused(
      { [cellAnnotations.instanceType]: `${"*".repeat(60)}z` },
      "NO_INSTANCE_TYPE_FITS",
    );
  });
});
